// Files must have the weights that the row of their architecture declares (model/weight_rules.cc).
// The tests take a checkpoint of each family and remove one tensor at a time.
#include "model/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"
#include "model/arch/registry.h"
#include "support/models.h"

namespace veery {
namespace {

std::vector<std::string> checkpoints() {
  std::vector<std::string> names;
  for (const char* kind : {"tiny", "encoders", "whisper", "draft_heads"})
    for (const auto& entry : std::filesystem::directory_iterator(test::fixture_path(kind)))
      if (std::filesystem::exists(entry.path() / "config.json"))
        names.push_back(std::string(kind) + "/" + entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& at) {
  std::string name = at.param;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
}

// Returns the name as in rules.
std::string part_of(const std::string& tensor) {
  std::string part = layer_part(tensor).second;
  if (part.ends_with(".weight")) part.resize(part.size() - std::string(".weight").size());
  return part;
}

bool lists(const WeightNames& names, const std::string& part) {
  return std::ranges::find(names, part) != names.end();
}

class CheckpointWeights : public ::testing::TestWithParam<std::string> {
 protected:
  CheckpointWeights()
      : file_(open_model(test::fixture_path(GetParam()))),
        config_(read_config(file_)),
        rules_(weight_rules(config_.architecture)) {
    const Graph graph = trace_definition(file_, config_);
    for (const Node& node : graph.nodes())
      if (node.op == op::kParam) read_.insert(node.name);
  }

  /// Returns the error for the file without the tensors that match; "" if it is accepted.
  template <typename Matches>
  std::string error_without(const Matches& matches) const {
    ModelFile less = file_;
    std::erase_if(less.tensors, [&](const TensorView& tensor) { return matches(tensor.name); });
    return error_of(less);
  }
  std::string error_of(const ModelFile& file) const {
    try {
      refuse_wrong_weights(file, config_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat) << error.what();
      return error.what();
    }
    return "";
  }
  auto layers_with(const std::string& part) const {
    return std::ranges::count_if(read_, [&](const auto& name) { return part_of(name) == part; });
  }

  ModelFile file_;
  TransformerConfig config_;
  const WeightRules& rules_;
  std::set<std::string> read_;  // tensors that the definition reads
};

TEST_P(CheckpointWeights, AreAccepted) { EXPECT_EQ(error_of(file_), ""); }

TEST_P(CheckpointWeights, AreRequiredUnlessTheRowSaysOtherwise) {
  for (const std::string& tensor : read_) {
    const std::string part = part_of(tensor);
    const std::string error = error_without([&](const auto& name) { return name == tensor; });
    const bool optional = lists(rules_.optional, part) || part.starts_with("rope_freqs") ||
                          part == "rope_factors_short";
    if (optional && layers_with(part) == 1)
      EXPECT_EQ(error, "") << tensor;
    else if (lists(rules_.by_layer, part))  // then the layer is of the other kind
      EXPECT_NE(error.find(tensor.substr(0, tensor.size() - std::string(part + ".weight").size())),
                std::string::npos)
          << tensor << ": " << error;
    else
      EXPECT_NE(error.find("'" + tensor + "'"), std::string::npos) << tensor << ": " << error;
  }
}

TEST_P(CheckpointWeights, MayLackTheOptionalOnes) {
  for (const std::string_view part : rules_.optional)
    EXPECT_EQ(error_without([&](const auto& name) { return part_of(name) == part; }), "") << part;
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointWeights, ::testing::ValuesIn(checkpoints()), test_name);

// They would be other models.
TEST(Weights, OfOtherArchitecturesAreRefused) {
  struct Row {
    const char* folder;
    const char* tensor;
  };
  for (const Row& row :
       {Row{"tiny/qwen3", "blk.1.attn_sinks.weight"}, Row{"tiny/qwen3", "blk.0.attn_q.bias"},
        Row{"tiny/llama-linear", "blk.0.attn_q_norm.weight"},
        Row{"tiny/llama-linear", "token_embd_norm.weight"},
        Row{"tiny/gemma", "blk.0.attn_gate.weight"}}) {
    ModelFile file = open_model(test::fixture_path(row.folder));
    const TransformerConfig config = read_config(file);
    file.tensors.push_back(file.tensors.front());
    file.tensors.back().name = row.tensor;
    try {
      refuse_wrong_weights(file, config);
      ADD_FAILURE() << row.tensor;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat);
      EXPECT_EQ(std::string(error.what()), file.path + ": found the tensor '" + row.tensor +
                                               "', which " + config.architecture +
                                               " models do not have");
    }
  }
}

TEST(Weights, OfTheFirstLayerDecideForOptionalOnes) {
  ModelFile file = open_model(test::fixture_path("tiny/llama-bias"));
  const TransformerConfig config = read_config(file);
  std::erase_if(file.tensors,
                [](const TensorView& tensor) { return tensor.name == "blk.0.attn_k.bias"; });
  try {
    refuse_wrong_weights(file, config);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              file.path + ": the model has no tensor 'blk.0.attn_k.bias', but 'blk.1.attn_k.bias'");
  }
}

TEST(WeightRulesTable, HasOneRowForEachArchitecture) {
  for (const Architecture& architecture : architectures())
    EXPECT_EQ(weight_rules(architecture.name).architecture, architecture.name);
}

}  // namespace
}  // namespace veery

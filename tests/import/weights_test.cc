// weights_test.cc: files must have the weights that weight_rules.cc requires. Removes each tensor
// of one checkpoint per family in turn; the error must name that tensor unless its row lists it as
// optional.
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

// The two matrices of a shared expert: a model has both or neither.
const WeightNames kSharedExpert = {"ffn_up_shexp", "ffn_down_shexp"};

// Returns the parts that a model must lack if it lacks an optional one.
WeightNames lost_with(std::string_view part) {
  return std::ranges::find(kSharedExpert, part) != kSharedExpert.end() ? kSharedExpert
                                                                       : WeightNames{part};
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
    const bool optional = (lists(rules_.optional, part) && lost_with(part).size() == 1) ||
                          part.starts_with("rope_freqs") || part == "rope_factors_short";
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
  std::vector<WeightNames> groups;
  for (const std::string_view part : rules_.optional) groups.push_back(lost_with(part));
  if (!rules_.together.empty()) groups.push_back(rules_.together);
  int tested = 0;
  for (const WeightNames& group : groups) {
    const auto matches = [&](const std::string& name) { return lists(group, part_of(name)); };
    if (std::ranges::none_of(read_, matches)) continue;
    ++tested;
    EXPECT_EQ(error_without(matches), "") << group.front();
  }
  const std::set<std::string> kHaveOptional = {"tiny/granitemoeshared", "tiny/llama-bias",
                                               "tiny/qwen2"};
  EXPECT_GE(tested, kHaveOptional.contains(GetParam()) ? 1 : 0);
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
                                               "', which is not supported in " +
                                               config.architecture + " models");
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

TEST(Weights, ThatBelongTogetherMustAllBeThere) {
  struct Row {
    const char* folder;
    std::string part;
  };
  for (const Row& row : {Row{"tiny/qwen2", "attn_q.bias"}, Row{"tiny/qwen2", "attn_k.bias"},
                         Row{"tiny/granitemoeshared", "ffn_up_shexp.weight"},
                         Row{"tiny/granitemoeshared", "ffn_down_shexp.weight"}}) {
    ModelFile file = open_model(test::fixture_path(row.folder));
    const TransformerConfig config = read_config(file);
    const auto lost = std::erase_if(file.tensors, [&](const TensorView& tensor) {
      return layer_part(tensor.name).second == row.part;
    });
    ASSERT_GT(lost, 0U) << row.part;
    try {
      refuse_wrong_weights(file, config);
      ADD_FAILURE() << row.part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat);
      EXPECT_NE(std::string(error.what()).find("no tensor 'blk.0." + row.part + "'"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Weights, OfQwen2MayIncludeABiasOfLogits) {
  ModelFile file = open_model(test::fixture_path("tiny/qwen2"));
  file.tensors.push_back(file.at("output_norm.weight"));
  file.tensors.back().name = "output.bias";
  const TransformerConfig config = read_config(file);
  EXPECT_NO_THROW(refuse_wrong_weights(file, config));
  const Graph graph = trace_definition(file, config);
  EXPECT_TRUE(std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return node.op == op::kParam && node.name == "output.bias";
  }));
}

TEST(Weights, OfMiniCpmWithExpertsIncludeTheRouter) {
  const ModelFile file = open_model(test::fixture_path("tiny/minicpm"));
  TransformerConfig config = read_config(file);
  EXPECT_NO_THROW(refuse_wrong_weights(file, config));
  config.experts.count = 4;
  config.experts.route.used = 2;
  config.experts.hidden = config.feed_forward.hidden;
  try {
    refuse_wrong_weights(file, config);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        file.path + ": the model has no tensor 'blk.0.ffn_gate_inp.weight', which minicpm needs");
  }
}

TEST(WeightRulesTable, HasOneRowForEachArchitecture) {
  for (const Architecture& architecture : architectures())
    EXPECT_EQ(weight_rules(architecture.name).architecture, architecture.name);
}

}  // namespace
}  // namespace veery

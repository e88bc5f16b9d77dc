// Tests of files with surplus tensors: additional layers, unused tensors, and intentionally unused
// parts.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "convert/as_folder.h"
#include "convert/as_gguf.h"
#include "file/folder/safetensors.h"
#include "file/gguf/gguf.h"
#include "import/open_model.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "support/write_model.h"
#include "verify/verify.h"

namespace veery {
namespace {

using test::TemporaryFolder;

/// A modifiable checkpoint of tests/fixtures/tiny.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& name)
      : config(test::read_fixture("tiny/" + name + "/config.json")),
        weights_(open_safetensors(test::fixture_path("tiny/" + name + "/model.safetensors"))),
        tensors(weights_.tensors) {}

  /// Adds a tensor with the bytes of an existing one.
  void copy(const std::string& from, const std::string& to) {
    tensors.push_back(*weights_.find(from));
    tensors.back().name = to;
  }
  /// Adds all tensors of a layer again under another layer number.
  void copy_layer(int from, int to) {
    const std::string prefix = fmt::format("model.layers.{}.", from);
    for (const StoredTensor& tensor : weights_.tensors)
      if (tensor.name.starts_with(prefix))
        copy(tensor.name, fmt::format("model.layers.{}.{}", to, tensor.name.substr(prefix.size())));
  }
  std::string write() const {
    folder_.write("config.json", dump_json(config));
    test::write_safetensors(folder_.file("model.safetensors"), tensors);
    return folder_.path();
  }

  Json config;

 private:
  SafetensorsFile weights_;
  TemporaryFolder folder_;

 public:
  std::vector<StoredTensor> tensors;
};

std::string refusal(const std::string& path) {
  try {
    Model model(path, {.threads = 1});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    return error.what();
  }
  return "";
}

const Check* find(const Report& report, std::string_view name) {
  const auto found = std::ranges::find(report.checks(), name, &Check::name);
  return found == report.checks().end() ? nullptr : &*found;
}

void expect_defect(const std::string& path, const std::string& layer, const std::string& count) {
  const std::string refused = refusal(path);
  EXPECT_NE(refused.find("num_hidden_layers is " + count), std::string::npos) << refused;
  EXPECT_NE(refused.find("blk." + layer + "."), std::string::npos) << refused;
  const Report report = verify(path, {.threads = 1});
  EXPECT_FALSE(report.sound());
  const Check* check = find(report, "layers");
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check->state, CheckState::kFail);
  EXPECT_NE(check->found.find("blk." + layer + "."), std::string::npos) << check->found;
  EXPECT_NE(check->found.find("num_hidden_layers is " + count), std::string::npos) << check->found;
  EXPECT_THROW(open_as_gguf(path), Error);
  EXPECT_THROW(plan_folder(open_model(path), {}), Error);
}

TEST(UnusedTensors, RejectsFoldersWithMoreLayersThanConfigured) {
  Checkpoint checkpoint("llama-linear");
  checkpoint.config["num_hidden_layers"] = 1;
  expect_defect(checkpoint.write(), "1", "1");
}

TEST(UnusedTensors, RejectsStrayLayers) {
  Checkpoint checkpoint("llama-linear");
  EXPECT_EQ(refusal(checkpoint.write()), "");
  checkpoint.copy_layer(0, 7);
  expect_defect(checkpoint.write(), "7", "2");
  Checkpoint one_tensor("llama-linear");
  one_tensor.copy("model.norm.weight", "model.layers.7.input_layernorm.weight");
  expect_defect(one_tensor.write(), "7", "2");
}

// DeepSeek V3 and GLM 4.5 are published with an MTP layer in addition to num_hidden_layers.
TEST(UnusedTensors, DropsMtpLayers) {
  const auto ids = test::read_fixture("tiny/deepseek-v3/reference.json")["prompts"][0]["ids"]
                       .get<std::vector<int32_t>>();
  const auto logits = [&](const std::string& path) {
    Model model(path, {.threads = 1});
    test::OneSequence session(model);
    session.feed(ids);
    return std::vector<float>(session.logits().begin(), session.logits().end());
  };
  const std::vector<float> expected = logits(Checkpoint("deepseek-v3").write());
  const auto with_further = [&](Checkpoint& checkpoint) {
    checkpoint.copy_layer(1, 2);
    for (const char* part : {"eh_proj", "enorm", "hnorm", "shared_head.norm", "embed_tokens"})
      checkpoint.copy("model.norm.weight", fmt::format("model.layers.2.{}.weight", part));
  };
  Checkpoint said("deepseek-v3");
  with_further(said);
  said.config["num_nextn_predict_layers"] = 1;
  EXPECT_EQ(logits(said.write()), expected);
  EXPECT_EQ(find(verify(said.write(), {.threads = 1}), "layers"), nullptr);
  Checkpoint silent("deepseek-v3");
  with_further(silent);
  silent.config.erase("num_nextn_predict_layers");
  EXPECT_EQ(logits(silent.write()), expected);
  said.copy_layer(1, 3);
  EXPECT_NE(refusal(said.write()), "");
}

/// A GGUF file with more layers than block_count, or with MTP layers.
class TinyGguf {
 public:
  void set(const char* key, uint64_t value) { changes_.emplace_back(key, value); }
  void rename(const std::string& from, const std::string& to) { added_.emplace_back(from, to); }
  std::string write() {
    ModelFile file = open_gguf(tiny_.path());
    for (const auto& [key, value] : changes_) file.metadata.set(key, value);
    for (const auto& [from, to] : added_) {
      file.tensors.push_back(file.at(from));
      file.tensors.back().name = to;
    }
    test::write_gguf(folder_.file("model.gguf"), file.metadata, file.tensors);
    return folder_.file("model.gguf");
  }

 private:
  test::TinyModel tiny_;
  TemporaryFolder folder_;
  std::vector<std::pair<std::string, uint64_t>> changes_;
  std::vector<std::pair<std::string, std::string>> added_;
};

TEST(UnusedTensors, RejectsGgufFilesWithMoreLayersThanConfigured) {
  TinyGguf fewer;
  fewer.set("llama.block_count", 1);
  const std::string refused = refusal(fewer.write());
  EXPECT_NE(refused.find("llama.block_count is 1"), std::string::npos) << refused;
  TinyGguf further;
  further.set("llama.nextn_predict_layers", 1);
  EXPECT_EQ(refusal(further.write()), "");
  EXPECT_EQ(find(verify(further.write(), {.threads = 1}), "layers"), nullptr);
  further.set("llama.nextn_predict_layers", 2);
  const std::string none = refusal(further.write());
  EXPECT_NE(none.find("llama.nextn_predict_layers is 2"), std::string::npos) << none;
}

TEST(UnusedTensors, LoadingReportsUnusedTensors) {
  std::vector<std::string> said;
  const auto load = [&](const std::string& path) {
    said.clear();
    Model(path, {.threads = 1, .warn = [&](const std::string& what) { said.push_back(what); }});
  };
  TinyGguf file;
  load(file.write());
  EXPECT_TRUE(said.empty());
  file.rename("blk.0.ffn_norm.weight", "v.blk.0.ln.weight");
  load(file.write());
  EXPECT_TRUE(said.empty());
  file.rename("blk.0.ffn_norm.weight", "blk.0.gain.weight");
  load(file.write());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("blk.0.gain.weight"), std::string::npos) << said[0];
}

}  // namespace
}  // namespace veery

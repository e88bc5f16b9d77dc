// Valid GGUF files that are not usable models: each gives an error that names the cause.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"
#include "engine/model.h"
#include "file/gguf/gguf.h"
#include "support/tiny_model.h"
#include "support/write_model.h"

namespace veery {
namespace {

struct Parts {
  Metadata metadata;
  std::vector<TensorView> tensors;
  std::deque<std::vector<std::byte>> bytes;  ///< data of replaced tensors

  TensorView& at(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const auto& t) { return t.name == name; });
  }
  void replace(const std::string& name, DType type, std::vector<int64_t> shape, std::byte fill) {
    TensorView& tensor = at(name);
    tensor.dtype = type;
    tensor.shape = std::move(shape);
    tensor.data = bytes.emplace_back(byte_size(type, tensor.elements()), fill);
  }
};

struct Case {
  const char* name;
  std::function<void(Parts&)> spoil;
  std::vector<std::string> words;
};

constexpr std::byte kNaN{0xFF};  // all ones is a NaN in f32, f16 and bf16

std::vector<Case> cases() {
  const auto set = [](const char* key, MetaValue value) {
    return [=](Parts& p) { p.metadata.set(key, value); };
  };
  return {
      {"MissingTensor",
       [](Parts& p) { p.at("blk.1.ffn_up.weight").name = "other"; },
       {"blk.1.ffn_up.weight"}},
      {"WrongShape",
       [](Parts& p) {
         std::reverse(p.at("blk.0.ffn_down.weight").shape.begin(),
                      p.at("blk.0.ffn_down.weight").shape.end());
       },
       {"blk.0.ffn_down.weight", "48 x 32", "32 x 48"}},
      {"WrongNormSize",
       [](Parts& p) { p.replace("output_norm.weight", DType::kF32, {31}, std::byte{0}); },
       {"output_norm.weight", "31", "32"}},
      {"NaNElement",
       [](Parts& p) { p.replace("blk.0.attn_norm.weight", DType::kF32, {32}, kNaN); },
       {"blk.0.attn_norm.weight", "NaN"}},
      {"NaNScale",
       [](Parts& p) {
         p.replace("blk.0.attn_q.weight", DType::kQ4_0, {32, 32}, kNaN);
       },
       {"blk.0.attn_q.weight", "block 0", "NaN"}},
      {"IntegerWeight",
       [](Parts& p) {
         p.replace("blk.0.attn_k.weight", DType::kI32, {32, 32}, std::byte{0});
       },
       {"blk.0.attn_k.weight", "i32"}},
      {"EmbeddingOfThreeDimensions",
       [](Parts& p) {
         p.replace("token_embd.weight", DType::kF32, {1, 259, 32}, std::byte{0});
       },
       {"token_embd.weight", "3"}},
      {"FewerRowsThanTokens",
       [](Parts& p) {
         p.replace("token_embd.weight", DType::kF32, {100, 32}, std::byte{0});
       },
       {"259", "100"}},
      {"UnknownArchitecture",
       set("general.architecture", "mammoth"),
       {"mammoth", "llama", "gemma3"}},
      {"NoLayers", set("llama.block_count", uint64_t{0}), {"llama.block_count", "0"}},
      {"TooManyLayers", set("llama.block_count", uint64_t{3}), {"blk.2."}},
      {"NegativeWidth",
       set("llama.embedding_length", int64_t{-32}),
       {"llama.embedding_length", "-32"}},
      {"HeadsThatDoNotDivide", set("llama.attention.head_count_kv", uint64_t{3}), {"2", "3"}},
      {"OddRotation", set("llama.rope.dimension_count", uint64_t{7}), {"7"}},
      {"TextForANumber", set("llama.block_count", "two"), {"llama.block_count"}},
      {"EpsilonNotANumber",
       set("llama.attention.layer_norm_rms_epsilon", std::numeric_limits<double>::quiet_NaN()),
       {"layer_norm_rms_epsilon"}},
      {"EpsilonBelowZero",
       set("llama.attention.layer_norm_rms_epsilon", -1.0),
       {"llama.attention.layer_norm_rms_epsilon is -1", "0 to 1"}},
      {"BaseOfRopeNearZero",
       set("llama.rope.freq_base", 1e-45),
       {"llama.rope.freq_base is 1e-45", "1 to 1e+15"}},
      {"FactorOfNothing",
       [](Parts& p) {
         p.metadata.set("llama.rope.scaling.type", "linear");
         p.metadata.set("llama.rope.scaling.factor", 0.0);
       },
       {"llama.rope.scaling.factor is 0", "expected"}},
      {"ScaleOfLogitsOfNothing",
       set("llama.logit_scale", 0.0),
       {"llama.logit_scale is 0", "expected"}},
      {"DivisorOfNothing",
       [](Parts& p) {
         p.tensors.push_back(p.at("blk.0.attn_norm.weight"));
         p.tensors.back().name = "rope_freqs.weight";
         p.replace("rope_freqs.weight", DType::kF32, {8}, std::byte{0});
       },
       {"rope_freqs.weight[0] is 0", "expected"}},
      {"LayerTooMany", set("llama.block_count", uint64_t{1}), {"llama.block_count is 1", "blk.1."}},
      {"UnknownScaling",
       [](Parts& p) {
         p.metadata.set("llama.rope.scaling.type", "spiral");
         p.metadata.set("llama.rope.scaling.factor", 2.0);
       },
       {"spiral"}},
      {"BrokenTemplate", set("tokenizer.chat_template", "{% if %}"), {"template"}},
  };
}

class BadModel : public ::testing::TestWithParam<Case> {};

TEST_P(BadModel, IsRefusedWithTheReason) {
  const test::TinyModel tiny;
  const ModelFile whole = open_gguf(tiny.path());
  Parts parts{whole.metadata, whole.tensors, {}};
  GetParam().spoil(parts);
  const std::string path = tiny.path() + ".bad";
  test::write_gguf(path, parts.metadata, parts.tensors);
  try {
    Model model(path);
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::kBug) << error.what();
    for (const std::string& word : GetParam().words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << word << " is not in: " << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
  std::filesystem::remove(path);
}

TEST(GoodModel, TheWholeOneIsAccepted) {
  const test::TinyModel tiny;
  EXPECT_NO_THROW(Model{tiny.path()});
  EXPECT_THROW(Model(tiny.path(), {.context = test::TinyModel::kContext + 1}), Error);
}

INSTANTIATE_TEST_SUITE_P(Cases, BadModel, ::testing::ValuesIn(cases()),
                         [](const auto& at) { return std::string(at.param.name); });

}  // namespace
}  // namespace veery

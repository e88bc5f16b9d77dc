// Tests of quantisation: the type of each tensor, and the written file.
#include "convert/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/random.h"
#include "file/gguf/gguf.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

/// The tensor shapes of a llama; all tensors share one block of zeros unless filled.
class Shapes {
 public:
  explicit Shapes(int64_t layers, int64_t dim = 512, int64_t kv_heads = 4, int64_t experts = 0) {
    file.metadata.set("general.architecture", std::string("llama"));
    file.metadata.set("llama.block_count", layers);
    file.metadata.set("llama.attention.head_count", int64_t{8});
    file.metadata.set("llama.attention.head_count_kv", kv_heads);
    if (experts > 0) file.metadata.set("llama.expert_count", experts);
    add("token_embd.weight", {64, dim});
    add("output_norm.weight", {dim});
    for (int64_t layer = 0; layer < layers; ++layer) {
      const auto name = [&](const char* part) {
        return fmt::format("blk.{}.{}.weight", layer, part);
      };
      add(name("attn_norm"), {dim});
      for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output"})
        add(name(part), {16, dim});
      if (experts > 0) {
        add(name("ffn_gate_inp"), {experts, dim});
        for (const char* part : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"})
          add(name(part), {experts, 16, dim});
      } else {
        for (const char* part : {"ffn_gate", "ffn_up", "ffn_down"}) add(name(part), {16, dim});
      }
    }
  }

  void add(std::string name, std::vector<int64_t> shape) {
    TensorView tensor = {.name = std::move(name), .dtype = DType::kF32, .shape = std::move(shape)};
    auto& values = values_.emplace_back(static_cast<size_t>(tensor.elements()));
    for (float& value : values) value = random_.normal();
    tensor.data = std::as_bytes(std::span(values));
    file.tensors.push_back(std::move(tensor));
  }
  std::vector<float>& values(size_t tensor) { return values_[tensor]; }

  std::string type(const std::string& name, std::string_view mix,
                   const QuantMixOptions& options = {}) const {
    const auto plans = plan_types(file, find_quant_mix(mix), options);
    for (size_t i = 0; i < plans.size(); ++i)
      if (file.tensors[i].name == name) return std::string(info(plans[i].type).name);
    return "absent";
  }

  ModelFile file;

 private:
  Random random_{3};
  std::deque<std::vector<float>> values_;
};

TEST(QuantMix, MatricesGetTheTypeAndNormsKeepTheirOwn) {
  const Shapes model(2);
  EXPECT_EQ(model.type("blk.0.attn_q.weight", "q4_0"), "q4_0");
  EXPECT_EQ(model.type("blk.0.attn_norm.weight", "q4_0"), "f32");
  EXPECT_EQ(model.type("output_norm.weight", "F16"), "f32");
  EXPECT_EQ(model.type("blk.1.ffn_up.weight", "F16"), "f16");
}

TEST(QuantMix, MediumUpgradesFirstAndLastEighthAndEveryThirdBetween) {
  const Shapes model(16);
  for (const int layer : {0, 1, 4, 7, 10, 13, 14, 15})
    EXPECT_EQ(model.type(fmt::format("blk.{}.ffn_down.weight", layer), "Q4_K_M"), "q6_K") << layer;
  for (const int layer : {2, 3, 5, 6, 8, 12})
    EXPECT_EQ(model.type(fmt::format("blk.{}.attn_v.weight", layer), "Q4_K"), "q4_K") << layer;
  EXPECT_EQ(model.type("blk.0.ffn_gate.weight", "Q4_K_M"), "q4_K");
  EXPECT_EQ(model.type("blk.3.attn_v.weight", "Q4_K_S"), "q5_K");
  EXPECT_EQ(model.type("blk.4.attn_v.weight", "Q4_K_S"), "q4_K");
  EXPECT_EQ(model.type("blk.0.attn_v.weight", "Q3_K_M"), "q5_K");
  EXPECT_EQ(model.type("blk.2.attn_v.weight", "Q3_K_M"), "q4_K");
  EXPECT_EQ(model.type("blk.9.attn_output.weight", "Q3_K_L"), "q5_K");
  EXPECT_EQ(model.type("blk.9.attn_output.weight", "Q2_K"), "q3_K");
}

TEST(QuantMix, TiedEmbeddingGetsTheTypeOfTheHead) {
  Shapes model(2);
  EXPECT_EQ(model.type("token_embd.weight", "Q4_K_M"), "q6_K");
  EXPECT_EQ(model.type("token_embd.weight", "IQ2_XS"), "q5_K");
  EXPECT_EQ(model.type("token_embd.weight", "Q8_0"), "q8_0");
  model.add("output.weight", {64, 512});
  EXPECT_EQ(model.type("token_embd.weight", "Q4_K_M"), "q4_K");
  EXPECT_EQ(model.type("token_embd.weight", "IQ2_XS"), "q2_K");
  EXPECT_EQ(model.type("output.weight", "Q4_K_M"), "q6_K");
}

TEST(QuantMix, SharedKeyHeadsAndExpertsUpgradeValues) {
  EXPECT_EQ(Shapes(2, 512, 2).type("blk.0.attn_v.weight", "Q2_K"), "q4_K");
  EXPECT_EQ(Shapes(2, 512, 4).type("blk.0.attn_v.weight", "Q2_K"), "q3_K");
  const Shapes experts(2, 512, 4, 8);
  EXPECT_EQ(experts.type("blk.0.attn_v.weight", "Q4_K_M"), "q8_0");
  EXPECT_EQ(experts.type("blk.0.attn_k.weight", "Q4_K_M"), "q8_0");
  EXPECT_EQ(experts.type("blk.0.attn_output.weight", "Q4_K_M"), "q5_K");
  EXPECT_EQ(experts.type("blk.0.ffn_gate_inp.weight", "Q4_K_M"), "f32");
  EXPECT_EQ(experts.type("blk.0.ffn_up_exps.weight", "MXFP4_MOE"), "mxfp4");
  EXPECT_EQ(experts.type("blk.0.attn_q.weight", "MXFP4_MOE"), "q8_0");
}

TEST(QuantMix, ImportanceMatrixChangesTheUpgrades) {
  const Shapes model(8);
  const QuantMixOptions informed = {.importance = true};
  EXPECT_EQ(model.type("blk.0.ffn_down.weight", "IQ4_XS"), "q5_K");
  EXPECT_EQ(model.type("blk.0.ffn_down.weight", "IQ4_XS", informed), "iq4_xs");
  EXPECT_EQ(model.type("blk.0.ffn_down.weight", "Q4_0", informed), "q4_1");
}

TEST(QuantMix, RowsThatDoNotFitGetSmallerBlocks) {
  const Shapes narrow(2, 96);
  EXPECT_EQ(narrow.type("blk.0.attn_q.weight", "Q4_K_M"), "q5_0");
  EXPECT_EQ(narrow.type("blk.0.attn_q.weight", "Q6_K"), "q8_0");
  EXPECT_EQ(narrow.type("blk.0.attn_q.weight", "IQ2_XS"), "iq4_nl");
  EXPECT_EQ(narrow.type("token_embd.weight", "Q4_K_M"), "q8_0");
  EXPECT_EQ(Shapes(2, 40).type("blk.0.attn_q.weight", "Q4_0"), "f16");
  const auto plans = plan_types(narrow.file, find_quant_mix("Q4_K_S"), {.pure = true});
  EXPECT_EQ(plans[3].wanted, DType::kQ4_K);
}

TEST(QuantMix, RulesTakePrecedenceAndPureUpgradesNothing) {
  const Shapes model(8);
  EXPECT_EQ(model.type("blk.0.ffn_down.weight", "Q4_K_M", {.pure = true}), "q4_K");
  QuantMixOptions options;
  options.rules = {{"blk\\.[01]\\.ffn_(up|gate)", DType::kQ8_0}, {"ffn_", DType::kQ2_K}};
  options.embedding = DType::kQ5_1;
  EXPECT_EQ(model.type("blk.1.ffn_up.weight", "Q4_K_M", options), "q8_0");
  EXPECT_EQ(model.type("blk.2.ffn_up.weight", "Q4_K_M", options), "q2_K");
  EXPECT_EQ(model.type("token_embd.weight", "Q4_K_M", options), "q5_1");
  options.rules = {{"(", DType::kQ8_0}};
  EXPECT_THROW(model.type("token_embd.weight", "Q4_K_M", options), Error);
  EXPECT_THROW(find_quant_mix("Q9"), Error);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const Shapes& model, std::string_view mix, const std::string& path, int threads,
           const QuantizeOptions& options = {}) {
  ThreadPool pool(threads);
  const QuantMix& chosen = find_quant_mix(mix);
  const auto plans = plan_types(model.file, chosen, {.importance = options.importance != nullptr});
  write_quantized(model.file, plans,
                  quantized_metadata(model.file, chosen, options.importance, "i.gguf"), path, pool,
                  options);
}

TEST(Quantize, FileMatchesEncodeForAnyThreadCount) {
  const test::TemporaryFolder folder;
  const Shapes model(3, 512, 4, 8);
  write(model, "Q4_K_M", folder.file("one.gguf"), 1);
  write(model, "Q4_K_M", folder.file("three.gguf"), 3);
  EXPECT_EQ(bytes_of(folder.file("one.gguf")), bytes_of(folder.file("three.gguf")));
  EXPECT_EQ(folder.entries(), 2U);
  const ModelFile file = open_gguf(folder.file("three.gguf"));
  EXPECT_EQ(file.metadata.integer("general.file_type"), 15);
  ASSERT_EQ(file.tensors.size(), model.file.tensors.size());
  for (const TensorView& tensor : model.file.tensors) {
    const TensorView& found = file.at(tensor.name);
    EXPECT_EQ(found.shape, tensor.shape);
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    decode(DType::kF32, tensor.data, values);
    std::vector<std::byte> expected(found.bytes());
    encode(found.dtype, values, expected);
    EXPECT_TRUE(std::ranges::equal(found.data, expected)) << tensor.name;
  }
}

TEST(Quantize, EachExpertHasItsOwnImportances) {
  const test::TemporaryFolder folder;
  const Shapes model(1, 256, 4, 2);
  ImportanceMatrix matrix;
  std::vector<float>& importance = matrix.values["blk.0.ffn_up_exps.weight"];
  for (int i = 0; i < 512; ++i) importance.push_back(i < 256 ? 1.0F : static_cast<float>(i % 5));
  write(model, "Q4_0", folder.file("m.gguf"), 2, {.importance = &matrix});
  const ModelFile file = open_gguf(folder.file("m.gguf"));
  const TensorView& tensor = model.file.at("blk.0.ffn_up_exps.weight");
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  decode(DType::kF32, tensor.data, values);
  const size_t half = values.size() / 2;
  std::vector<std::byte> expected(byte_size(DType::kQ4_0, static_cast<int64_t>(values.size())));
  for (size_t e = 0; e < 2; ++e)
    encode(DType::kQ4_0, std::span(values).subspan(e * half, half),
           std::span(expected).subspan(e * expected.size() / 2, expected.size() / 2),
           std::span(importance).subspan(e * 256, 256));
  EXPECT_TRUE(std::ranges::equal(file.at(tensor.name).data, expected));
  importance.pop_back();
  EXPECT_THROW(write(model, "Q4_0", folder.file("n.gguf"), 2, {.importance = &matrix}), Error);
}

TEST(Quantize, EncodingErrorsNameTheElementAndLeaveNoFile) {
  const test::TemporaryFolder folder;
  const std::pair<std::string_view, float> cases[] = {{"Q4_0", std::nanf("")}, {"F16", 70000.0F}};
  for (const auto& [mix, value] : cases) {
    Shapes model(2);
    model.values(5)[700] = value;
    try {
      write(model, mix, folder.file("m.gguf"), 2);
      FAIL();
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(model.file.tensors[5].name), std::string::npos) << what;
      EXPECT_NE(what.find(fmt::format("is {}", value)), std::string::npos) << what;
    }
    EXPECT_EQ(folder.entries(), 0U);
  }
}

TEST(Quantize, SourceThatChangesMeanwhileLeavesNoOutput) {
  const Shapes model(3);
  for (const size_t kept : {size_t{0}, size_t{5000}, size_t{150000}, size_t{300000}}) {
    const test::TemporaryFolder folder;
    const std::string in = folder.file("in.gguf");
    write(model, "F16", in, 1);
    const ModelFile file = open_gguf(in);
    ThreadPool pool(3);
    QuantizeOptions options;
    bool shrunk = false;
    options.progress = [&](size_t, size_t, const std::string&) {
      if (!std::exchange(shrunk, true)) std::filesystem::resize_file(in, kept);
    };
    const auto plans = plan_types(file, find_quant_mix("Q4_0"), {});
    EXPECT_THROW(write_quantized(file, plans, file.metadata, folder.file("n.gguf"), pool, options),
                 FileChanged)
        << kept;
    EXPECT_TRUE(shrunk);
    EXPECT_EQ(folder.entries(), 1U);
  }
}

TEST(Quantize, RequantisesOnlyOnRequest) {
  const test::TemporaryFolder folder;
  write(Shapes(2), "Q8_0", folder.file("m.gguf"), 2);
  ModelFile again = open_gguf(folder.file("m.gguf"));
  ThreadPool pool(2);
  const auto plans = plan_types(again, find_quant_mix("Q4_0"), {});
  QuantizeOptions options;
  EXPECT_THROW(write_quantized(again, plans, again.metadata, folder.file("n.gguf"), pool, options),
               Error);
  options.requantize = true;
  write_quantized(again, plans, again.metadata, folder.file("n.gguf"), pool, options);
  EXPECT_EQ(open_gguf(folder.file("n.gguf")).at("blk.0.attn_q.weight").dtype, DType::kQ4_0);
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<std::byte> buffer;
  const std::span<const std::byte> bytes = tensor.read(buffer);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  decode(tensor.dtype, bytes, values);
  return values;
}

TEST(Quantize, Q2ValuesSurviveWritingAndReading) {
  const test::TemporaryFolder folder;
  const Shapes model(2);
  write(model, "Q2_0", folder.file("q2.gguf"), 2);
  const ModelFile file = open_gguf(folder.file("q2.gguf"));
  EXPECT_EQ(file.metadata.integer("general.file_type"), 41);
  const std::string name = "blk.1.ffn_up.weight";
  std::vector<std::byte> expected(byte_size(DType::kQ2_0, model.file.at(name).elements()));
  encode(DType::kQ2_0, values_of(model.file.at(name)), expected);
  std::vector<float> decoded(static_cast<size_t>(model.file.at(name).elements()));
  decode(DType::kQ2_0, expected, decoded);
  EXPECT_EQ(values_of(file.at(name)), decoded);
  EXPECT_EQ(model.type(name, "Q2_0"), "q2_0");
  // Requantising keeps the values.
  ThreadPool pool(2);
  write_quantized(file, plan_types(file, find_quant_mix("Q2_0"), {}), file.metadata,
                  folder.file("again.gguf"), pool, {.requantize = true});
  EXPECT_EQ(values_of(open_gguf(folder.file("again.gguf")).at(name)), decoded);
}

}  // namespace
}  // namespace veery

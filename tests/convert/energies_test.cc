// Tests of the estimated input energies of weight matrices.
#include "convert/energies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "base/error.h"
#include "base/random.h"
#include "convert/quantize.h"
#include "file/gguf/gguf.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

using Values = std::vector<double>;

/// A decoder of two layers with random weights, whose channels differ in magnitude.
class Decoder {
 public:
  static constexpr int64_t kVocabulary = 96, kLayers = 2, kHeads = 4, kKeyHeads = 2;

  explicit Decoder(int64_t dim = 64, const std::string& architecture = "llama", int64_t hidden = 96)
      : dim_(dim) {
    file.metadata.set("general.architecture", architecture);
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, int64_t>>{
             {"block_count", kLayers},
             {"context_length", 64},
             {"embedding_length", dim},
             {"feed_forward_length", hidden},
             {"attention.head_count", kHeads},
             {"attention.head_count_kv", kKeyHeads}})
      file.metadata.set(architecture + "." + key, value);
    add("token_embd.weight", {kVocabulary, dim}, true);
    add("output_norm.weight", {dim});
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const auto name = [&](const char* part) {
        return fmt::format("blk.{}.{}.weight", layer, part);
      };
      for (const char* norm : {"attn_norm", "ffn_norm"}) add(name(norm), {dim});
      if (architecture == "gemma3")
        for (const char* norm : {"post_attention_norm", "post_ffw_norm"}) add(name(norm), {dim});
      for (const char* part : {"attn_q", "attn_output"}) add(name(part), {dim, dim});
      for (const char* part : {"attn_k", "attn_v"}) add(name(part), {dim / 2, dim});
      for (const char* part : {"ffn_gate", "ffn_up"}) add(name(part), {hidden, dim});
      add(name("ffn_down"), {dim, hidden});
    }
  }

  std::vector<float>& values(const std::string& name) {
    for (size_t i = 0; i < file.tensors.size(); ++i)
      if (file.tensors[i].name == name) return values_[i];
    throw std::runtime_error(name);
  }
  void drop(const std::string& name) {
    std::erase_if(file.tensors, [&](const TensorView& tensor) { return tensor.name == name; });
  }
  std::vector<float> estimate(const std::string& name, int threads = 1) const {
    ThreadPool pool(threads);
    const ImportanceMatrix matrix = estimate_importance(file, pool);
    const auto found = matrix.values.find(name);
    return found == matrix.values.end() ? std::vector<float>{} : found->second;
  }

  ModelFile file;

 private:
  void add(const std::string& name, std::vector<int64_t> shape, bool uneven = false) {
    TensorView tensor = {.name = name, .dtype = DType::kF32, .shape = std::move(shape)};
    auto& values = values_.emplace_back(static_cast<size_t>(tensor.elements()));
    const float scale = 1 / std::sqrt(static_cast<float>(tensor.columns()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = random_.normal() * (tensor.shape.size() > 1 ? scale : 1);
      if (uneven) values[i] *= static_cast<float>(1 + i % static_cast<size_t>(dim_) % 5);
    }
    tensor.data = std::as_bytes(std::span(values));
    file.tensors.push_back(std::move(tensor));
  }

  int64_t dim_;
  Random random_{17};
  std::deque<std::vector<float>> values_;
};

Values normed(const Values& energies, const std::vector<float>& weight) {
  double mean = 0;
  for (const double energy : energies) mean += energy / static_cast<double>(energies.size());
  Values result;
  for (size_t i = 0; i < weight.size(); ++i)
    result.push_back(double{weight[i]} * weight[i] * energies[i] / mean);
  return result;
}

Values through(const std::vector<float>& matrix, const Values& input) {
  Values result(matrix.size() / input.size());
  for (size_t i = 0; i < matrix.size(); ++i)
    result[i / input.size()] += double{matrix[i]} * matrix[i] * input[i % input.size()];
  return result;
}

Values embedding_energies(Decoder& model) {
  const auto& embedding = model.values("token_embd.weight");
  Values result(embedding.size() / Decoder::kVocabulary);
  for (size_t i = 0; i < embedding.size(); ++i)
    result[i % result.size()] += double{embedding[i]} * embedding[i] / Decoder::kVocabulary;
  return result;
}

void expect_proportional(const std::vector<float>& found, const Values& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  double sum = 0;
  for (const double value : wanted) sum += value;
  const double scale = static_cast<double>(wanted.size()) / sum;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i] * scale, tolerance * wanted[i] * scale) << i;
}

// Returns the energies of the residual stream after the first layer, given those before it.
Values after_a_layer(Decoder& model, Values stream) {
  const Values input = normed(stream, model.values("blk.0.attn_norm.weight"));
  const Values values = through(model.values("blk.0.attn_v.weight"), input);
  Values attended;  // two query heads for each of the two key heads
  const size_t size = values.size() / 2;
  for (const size_t head : {0, 0, 1, 1})
    for (size_t i = 0; i < size; ++i) attended.push_back(values[head * size + i] / 4);
  const Values first = through(model.values("blk.0.attn_output.weight"), attended);
  for (size_t i = 0; i < stream.size(); ++i) stream[i] += first[i];
  const Values second = normed(stream, model.values("blk.0.ffn_norm.weight"));
  Values hidden = through(model.values("blk.0.ffn_gate.weight"), second);
  const Values up = through(model.values("blk.0.ffn_up.weight"), second);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= up[i] / 4;
  const Values last = through(model.values("blk.0.ffn_down.weight"), hidden);
  for (size_t i = 0; i < stream.size(); ++i) stream[i] += last[i];
  return stream;
}

TEST(Energies, FollowTheResidualStreamThroughALayer) {
  Decoder model;
  Values stream = embedding_energies(model);
  expect_proportional(model.estimate("blk.0.attn_k.weight"),
                      normed(stream, model.values("blk.0.attn_norm.weight")), 1e-5);
  stream = after_a_layer(model, stream);
  for (const char* name : {"attn_q", "attn_k", "attn_v"})
    expect_proportional(model.estimate(fmt::format("blk.1.{}.weight", name)),
                        normed(stream, model.values("blk.1.attn_norm.weight")), 1e-5);
  EXPECT_TRUE(model.estimate("blk.0.attn_output.weight").empty());
  EXPECT_TRUE(model.estimate("blk.0.ffn_down.weight").empty());
  EXPECT_EQ(model.estimate("token_embd.weight").size(), 64U);
}

TEST(Energies, SampledColumnsApproximateAllColumns) {
  Decoder model(640);
  const Values stream = after_a_layer(model, embedding_energies(model));
  expect_proportional(model.estimate("blk.1.attn_q.weight"),
                      normed(stream, model.values("blk.1.attn_norm.weight")), 0.25);
}

TEST(Energies, NormAfterABlockRemovesItsScale) {
  Decoder model(64, "gemma3");
  const auto before = model.estimate("blk.1.ffn_up.weight");
  ASSERT_EQ(before.size(), 64U);
  for (float& value : model.values("blk.0.ffn_down.weight")) value *= 8;
  EXPECT_EQ(model.estimate("blk.1.ffn_up.weight"), before);
  for (float& value : model.values("blk.0.post_ffw_norm.weight")) value *= 8;
  EXPECT_NE(model.estimate("blk.1.ffn_up.weight"), before);
}

TEST(Energies, SeparateHeadHasEnergiesAndTheEmbeddingDoesNot) {
  Decoder model;
  const auto tied = model.estimate("token_embd.weight");
  TensorView head = model.file.at("token_embd.weight");
  head.name = "output.weight";
  model.file.tensors.push_back(head);
  EXPECT_EQ(model.estimate("output.weight"), tied);
  EXPECT_TRUE(model.estimate("token_embd.weight").empty());
}

TEST(Energies, DoNotDependOnThreadsOrStorageType) {
  Decoder model(192);
  for (auto& tensor : model.file.tensors)
    for (float& value : model.values(tensor.name)) value = f16_to_f32(f32_to_f16(value));
  const auto expected = model.estimate("blk.1.ffn_gate.weight");
  EXPECT_EQ(model.estimate("blk.1.ffn_gate.weight", 3), expected);
  std::deque<std::vector<std::byte>> halves;
  for (TensorView& tensor : model.file.tensors) {
    auto& half = halves.emplace_back(byte_size(DType::kF16, tensor.elements()));
    encode(DType::kF16, model.values(tensor.name), half);
    tensor.dtype = DType::kF16;
    tensor.data = half;
  }
  EXPECT_EQ(model.estimate("blk.1.ffn_gate.weight", 2), expected);
}

TEST(Energies, AreEmptyForUnsupportedModels) {
  const std::string name = "blk.0.attn_q.weight";
  EXPECT_FALSE(Decoder().estimate(name).empty());
  EXPECT_TRUE(Decoder(64, "unheard-of").estimate(name).empty());
  for (const char* part : {"ffn_norm", "attn_v", "ffn_gate"}) {
    Decoder model;
    model.drop(fmt::format("blk.1.{}.weight", part));
    EXPECT_TRUE(model.estimate(name).empty()) << part;
  }
  Decoder damaged;
  damaged.values("blk.0.ffn_down.weight")[7] = std::nanf("");
  EXPECT_TRUE(damaged.estimate(name).empty());
}

double weighted_error(const std::vector<float>& values, std::span<const float> found,
                      const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = double{values[i]} - found[i];
    sum += weights[i % weights.size()] * error * error;
  }
  return sum;
}

std::vector<float> read(const std::string& path, const std::string& name) {
  const ModelFile file = open_gguf(path);
  const TensorView& tensor = file.at(name);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  decode(tensor.dtype, tensor.data, values);
  return values;
}

void quantize(const ModelFile& file, std::string_view mix, const std::string& path,
              const ImportanceMatrix* importance = nullptr) {
  ThreadPool pool(2);
  write_quantized(file, plan_types(file, find_quant_mix(mix), {.pure = true}), file.metadata, path,
                  pool, {.importance = importance, .requantize = true});
}

TEST(Energies, ColumnsWithLargeInputsAreQuantisedBetter) {
  const test::TemporaryFolder folder;
  Decoder model;
  const std::string path = folder.file("m.gguf");
  for (const char* type : {"Q4_0", "Q5_1", "IQ4_NL"}) {
    quantize(model.file, type, path);
    for (const std::string name : {"blk.1.attn_q.weight", "token_embd.weight"}) {
      const std::vector<float>& values = model.values(name);
      const auto weights = model.estimate(name);
      const DType coded = *dtype_from_name(type);
      std::vector<std::byte> bytes(byte_size(coded, static_cast<int64_t>(values.size())));
      std::vector<float> without(values.size());
      encode(coded, values, bytes);
      decode(coded, bytes, without);
      EXPECT_LT(weighted_error(values, read(path, name), weights),
                0.8 * weighted_error(values, without, weights))
          << type << " " << name;
    }
  }
}

TEST(Energies, ImportanceMatrixTakesPrecedence) {
  const test::TemporaryFolder folder;
  Decoder model;
  ImportanceMatrix matrix;
  matrix.values["blk.0.attn_q.weight"] = std::vector<float>(64, 1.0F);
  quantize(model.file, "Q4_0", folder.file("given.gguf"), &matrix);
  quantize(model.file, "Q4_0", folder.file("estimated.gguf"));
  const auto differ = [&](const char* name) {
    return read(folder.file("given.gguf"), name) != read(folder.file("estimated.gguf"), name);
  };
  EXPECT_TRUE(differ("blk.0.attn_q.weight"));
  EXPECT_FALSE(differ("blk.0.attn_k.weight"));
}

TEST(Energies, RepresentableValuesStayUnchanged) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("m.gguf");
  for (const DType type : {DType::kQ4_1, DType::kQ4_0}) {
    Decoder model;
    for (const TensorView& tensor : model.file.tensors) {
      if (tensor.shape.size() < 2) continue;
      std::vector<float>& values = model.values(tensor.name);
      std::vector<std::byte> bytes(byte_size(type, tensor.elements()));
      encode(type, values, bytes);
      decode(type, bytes, values);
    }
    quantize(model.file, info(type).name, path);
    EXPECT_FALSE(model.estimate("blk.1.attn_q.weight").empty());
    for (const TensorView& tensor : model.file.tensors)
      EXPECT_EQ(read(path, tensor.name), model.values(tensor.name)) << tensor.name;
  }
}

}  // namespace
}  // namespace veery

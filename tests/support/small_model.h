// small_model.h: a small llama model with weights of any type, and its logits.
#pragma once
#include <unistd.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <optional>

#include "base/random.h"
#include "engine/model.h"
#include "file/gguf/gguf.h"
#include "support/one_sequence.h"
#include "support/vocabularies.h"
#include "support/write_model.h"

namespace veery::test {

inline constexpr int64_t kVocabulary = 259, kDim = 256, kHidden = 512, kHeads = 4, kKvHeads = 2,
                         kHeadDim = 48;

// A llama whose weights have one type and whose activations have outliers.
class SmallModel {
 public:
  explicit SmallModel(DType type, bool tied = false, int64_t hidden = kHidden, int64_t experts = 0,
                      int64_t layers = 1, std::optional<DType> values = {})
      : type_(type), values_(values.value_or(type)) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("veery-gpu-{}-{}.gguf", getpid(), count++);
    VocabularyBuilder vocabulary;
    vocabulary.add_bytes_of_alphabet();
    for (const char* token : {"<s>", "</s>", "<|user|>"}) vocabulary.add(token, 3);
    Metadata metadata = vocabulary.file("gpt2").metadata;
    metadata.set("general.architecture", "llama");
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, int64_t>>{
             {"block_count", layers},
             {"context_length", 512},
             {"embedding_length", kDim},
             {"feed_forward_length", hidden},
             {"attention.head_count", kHeads},
             {"attention.head_count_kv", kKvHeads},
             {"attention.key_length", kHeadDim},
             {"attention.value_length", kHeadDim}})
      metadata.set(std::string("llama.") + key, static_cast<uint64_t>(value));
    if (experts > 0) {
      metadata.set("llama.expert_count", static_cast<uint64_t>(experts));
      metadata.set("llama.expert_used_count", uint64_t{3});
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
    metadata.set("llama.rope.dimension_count", uint64_t{kHeadDim});
    add("token_embd.weight", {kVocabulary, kDim});
    if (!tied) add("output.weight", {kVocabulary, kDim});
    add("output_norm.weight", {kDim});
    for (int64_t layer = 0; layer < layers; ++layer)
      add_layer(fmt::format("blk.{}.", layer), hidden, experts);
    write_gguf(path_, metadata, tensors_);
  }
  SmallModel(const SmallModel&) = delete;
  SmallModel& operator=(const SmallModel&) = delete;
  ~SmallModel() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  void add_layer(const std::string& layer, int64_t hidden, int64_t experts) {
    add(layer + "attn_norm.weight", {kDim});
    add(layer + "ffn_norm.weight", {kDim});
    add(layer + "attn_q.weight", {kHeads * kHeadDim, kDim});
    add(layer + "attn_k.weight", {kKvHeads * kHeadDim, kDim});
    add(layer + "attn_v.weight", {kKvHeads * kHeadDim, kDim}, values_);
    add(layer + "attn_q.bias", {kHeads * kHeadDim});
    add(layer + "attn_k.bias", {kKvHeads * kHeadDim});
    add(layer + "attn_v.bias", {kKvHeads * kHeadDim});
    // The width of heads is not a multiple of 256.
    add(layer + "attn_output.weight", {kDim, kHeads * kHeadDim},
        info(type_).block > 32 ? DType::kQ8_0 : type_);
    if (experts > 0) {
      add(layer + "ffn_gate_inp.weight", {experts, kDim});
      add(layer + "ffn_gate_exps.weight", {experts, hidden, kDim});
      add(layer + "ffn_up_exps.weight", {experts, hidden, kDim});
      add(layer + "ffn_down_exps.weight", {experts, kDim, hidden});
    } else {
      add(layer + "ffn_gate.weight", {hidden, kDim});
      add(layer + "ffn_up.weight", {hidden, kDim});
      add(layer + "ffn_down.weight", {kDim, hidden});
    }
  }
  // Each vector has a few large values, which create outlier blocks.
  void add(std::string name, std::vector<int64_t> shape, std::optional<DType> of = {}) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    std::vector<float> values(static_cast<size_t>(count));
    const bool vector = shape.size() == 1;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = vector ? (i % 97 == 5 ? 9.0F : 0.7F + 0.1F * random_.normal())
                         : random_.normal() / std::sqrt(static_cast<float>(shape.back()));
    const DType type = vector ? DType::kF32 : of.value_or(type_);
    std::vector<std::byte>& bytes = bytes_.emplace_back(byte_size(type, count));
    encode(type, values, bytes);
    tensors_.push_back(
        {.name = std::move(name), .dtype = type, .shape = std::move(shape), .data = bytes});
  }

  /// Values_: type of the value projection, which is joined with queries and keys.
  DType type_, values_;
  std::string path_;
  Random random_{7};
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<TensorView> tensors_;
};

using Rows = std::vector<std::vector<float>>;
inline Rows all_logits(const std::string& path, const LoadOptions& options,
                       std::span<const int32_t> ids) {
  Model model(path, options);
  OneSequence session(model);
  Rows rows;
  session.feed_all(ids, [&](int32_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  return rows;
}

inline std::vector<int32_t> some_ids(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>((i * 37 + 11) % 250);
  return ids;
}

}  // namespace veery::test

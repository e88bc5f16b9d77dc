// tiny_model.h: a model file of a few hundred kB with random weights, for tests that need a working
// engine but no meaningful output.
#pragma once
#include <unistd.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "file/gguf/gguf.h"
#include "support/vocabularies.h"
#include "support/write_model.h"

namespace veery::test {

/// A two-layer llama whose tokens are bytes (ids 0 to 255), <s> (256), </s> (257) and <|user|>
/// (258).
class TinyModel {
 public:
  static constexpr int32_t kBos = 256, kEos = 257, kVocabulary = 259, kContext = 64;

  explicit TinyModel(const std::string& chat_template = "", bool add_bos = true, uint64_t seed = 11,
                     uint64_t context = kContext)
      : random_(seed) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("veery-tiny-{}-{}.gguf", getpid(), count++);
    VocabularyBuilder vocabulary;
    vocabulary.add_bytes_of_alphabet();
    for (const char* token : {"<s>", "</s>", "<|user|>"}) vocabulary.add(token, 3);
    Metadata metadata = vocabulary.file("gpt2").metadata;
    metadata.set("general.architecture", "llama");
    for (const auto& [key, value] :
         std::initializer_list<std::pair<const char*, uint64_t>>{{"block_count", 2},
                                                                 {"context_length", context},
                                                                 {"embedding_length", kDim},
                                                                 {"feed_forward_length", kHidden},
                                                                 {"attention.head_count", 2}})
      metadata.set(std::string("llama.") + key, value);
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
    metadata.set("tokenizer.ggml.bos_token_id", uint64_t{kBos});
    metadata.set("tokenizer.ggml.eos_token_id", uint64_t{kEos});
    metadata.set("tokenizer.ggml.add_bos_token", add_bos);
    if (!chat_template.empty()) metadata.set("tokenizer.chat_template", chat_template);
    add_weights();
    write_gguf(path_, metadata, tensors_);
  }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;
  ~TinyModel() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

 private:
  static constexpr int64_t kDim = 32, kHidden = 48;

  void add_weights() {
    add("token_embd.weight", {kVocabulary, kDim});
    add("output.weight", {kVocabulary, kDim}, 2);
    add("output_norm.weight", {kDim}, 0);
    for (int layer = 0; layer < 2; ++layer) {
      const auto name = [&](const char* part) {
        return fmt::format("blk.{}.{}.weight", layer, part);
      };
      for (const char* part : {"attn_norm", "ffn_norm"}) add(name(part), {kDim}, 0);
      for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output"})
        add(name(part), {kDim, kDim});
      for (const char* part : {"ffn_gate", "ffn_up"}) add(name(part), {kHidden, kDim});
      add(name("ffn_down"), {kDim, kHidden});
    }
  }

  // Adds a tensor of normal values with variance scale^2 / columns, or of ones if scale is 0.
  void add(std::string name, std::vector<int64_t> shape, float scale = 1) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    const float factor = scale / std::sqrt(static_cast<float>(shape.back()));
    auto& values = values_.emplace_back(static_cast<size_t>(count), 1.0F);
    if (scale > 0)
      for (float& value : values) value = factor * random_.normal();
    tensors_.push_back({.name = std::move(name),
                        .dtype = DType::kF32,
                        .shape = std::move(shape),
                        .data = std::as_bytes(std::span(values))});
  }

  std::string path_;
  Random random_;
  std::deque<std::vector<float>> values_;
  std::vector<TensorView> tensors_;
};

}  // namespace veery::test

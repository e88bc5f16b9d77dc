// vocabularies.h: builds small vocabularies without a file.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "file/model_file.h"
#include "text/common/byte_alphabet.h"

namespace veery::test {

/// Collects tokens and converts them to the metadata of a model file. Must outlive those files.
class VocabularyBuilder {
 public:
  int32_t add(std::string token, int64_t type = 1, double score = 0) {
    strings_.push_back(std::move(token));
    tokens_.push_back(strings_.back());
    types_.push_back(type);
    scores_.push_back(score);
    return static_cast<int32_t>(tokens_.size()) - 1;
  }
  void merge(std::string_view left, std::string_view right) {
    strings_.push_back(std::string(left) + " " + std::string(right));
    merges_.push_back(strings_.back());
  }
  /// Merges two tokens into a new one.
  int32_t join(const std::string& left, const std::string& right) {
    merge(left, right);
    return add(left + right);
  }
  void add_bytes_of_alphabet() {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      add(to_alphabet({&c, 1}));
    }
  }
  void add_byte_tokens() {
    for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 6);
  }
  ModelFile file(const std::string& model, const std::string& pre = "gpt-2") const {
    ModelFile file;
    file.path = "test.gguf";
    file.metadata.set("tokenizer.ggml.model", model);
    file.metadata.set("tokenizer.ggml.pre", pre);
    file.metadata.set("tokenizer.ggml.tokens", tokens_);
    file.metadata.set("tokenizer.ggml.token_type", types_);
    if (model == "llama")
      file.metadata.set("tokenizer.ggml.scores", scores_);
    else
      file.metadata.set("tokenizer.ggml.merges", merges_);
    return file;
  }

 private:
  std::deque<std::string> strings_;
  std::vector<std::string_view> tokens_, merges_;
  std::vector<int64_t> types_;
  std::vector<double> scores_;
};

}  // namespace veery::test

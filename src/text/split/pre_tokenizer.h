// pre_tokenizer.h: splits text into the words inside which BPE merges happen.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/common/regex.h"

namespace veery {

/// The pre-tokenizer for a value of `tokenizer.ggml.pre`.
struct PreTokenizerInfo {
  std::string_view name;
  /// Applied in order; each pattern splits the parts that the previous one left. \s matches
  /// Unicode's White_Space.
  std::span<const std::string_view> patterns;
  bool ignore_merges = false;   ///< a word that is a token is not split by merges
  bool add_bos = false;         ///< default of tokenizer.ggml.add_bos_token
  bool plain_bytes = false;     ///< the vocabulary does not use the byte alphabet
  bool space_marks = false;     ///< replaces spaces by U+2581 first
  bool newline_tokens = false;  ///< a run of newlines that is a token is not split by merges
  bool compose = false;         ///< normalises text to NFC first
};

/// Returns the pre-tokenizer of that name, or nullptr.
const PreTokenizerInfo* find_pre_tokenizer(std::string_view name);
std::span<const PreTokenizerInfo> all_pre_tokenizers();

/// Compiled patterns. Thread-safe.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::span<const std::string_view> patterns);
  PreTokenizer(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Appends the end offsets of the words of `text`, ascending; the last is text.size(). Malformed
  /// UTF-8 counts as symbols. Throws kLimit if a pattern takes too many steps.
  void split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  std::vector<Regex> patterns_;
};

}  // namespace veery

// pre_tokenizer.h: cuts text into the words inside which byte-pair merges happen.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/common/regex.h"

namespace veery {

/// What a value of `tokenizer.ggml.pre` stands for.
struct PreTokenizerInfo {
  std::string_view name;
  /// Applied one after the other, each inside the parts that the one before left. In them, \s is
  /// Unicode's White_Space.
  std::span<const std::string_view> patterns;
  bool ignore_merges = false;   ///< a word that is a token is taken as it is
  bool add_bos = false;         ///< where tokenizer.ggml.add_bos_token is absent
  bool plain_bytes = false;     ///< the vocabulary is not written in the byte alphabet
  bool space_marks = false;     ///< spaces become U+2581 first
  bool newline_tokens = false;  ///< a run of newlines that is a token is taken as it is
  bool compose = false;         ///< text is brought to Unicode's form NFC first
};

/// nullptr if the name is not known.
const PreTokenizerInfo* find_pre_tokenizer(std::string_view name);
std::span<const PreTokenizerInfo> all_pre_tokenizers();

/// Patterns compiled once; safe to use from several threads.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::span<const std::string_view> patterns);
  PreTokenizer(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// The ends of the words that `text` consists of, ascending, the last one being text.size().
  /// Malformed UTF-8 counts as symbols. Throws kLimit if a pattern needs too many steps.
  void split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  std::vector<Regex> patterns_;
};

}  // namespace veery

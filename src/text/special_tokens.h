// special_tokens.h: tokens that text names as a whole, and those with a role (BOS, end of an answer
// ...).
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace veery {

/// Ids and flags that hold where the metadata says nothing.
struct SpecialDefaults {
  int32_t bos = -1, eos = -1, unknown = -1;
  bool add_bos = false;
};

/// Reads `tokenizer.ggml.*_token_id`, finds well-known ends of an answer by name and gives those
/// tokens the type that they should have had. Throws kFormat for a BOS, EOS, EOT or EOM outside the
/// vocabulary; other ids outside it are dropped.
Tokenizer::Special resolve_special(const Metadata& metadata, const SpecialDefaults& defaults,
                                   Vocabulary& vocabulary);

/// Finds control, user-defined and unknown tokens in text, leftmost first and the longest there.
class SpecialMatcher {
 public:
  /// `strip_after`: spaces after a control token belong to it (Phi-3).
  SpecialMatcher(const Vocabulary& vocabulary, bool strip_after);

  struct Match {
    int32_t id = -1;  ///< -1: none
    size_t begin = 0, end = 0;
  };
  /// The first match at or after `from`; control and unknown tokens only if `parse_special`.
  Match next(std::string_view text, size_t from, bool parse_special) const;

 private:
  struct Entry {
    std::string_view text;  // of the vocabulary
    int32_t id;
    bool control, strip_after;
  };
  const Entry* longest_at(std::string_view rest, bool parse_special) const;

  std::vector<Entry> entries_;             // sorted by text
  std::array<uint32_t, 257> first_{};      // entries by first byte: [first_[b], first_[b + 1])
  std::array<uint8_t, 256> user_first_{};  // some user-defined token begins so
};

}  // namespace veery

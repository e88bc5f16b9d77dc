// charsmap.h: the precompiled character map in SentencePiece models.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/common/growth.h"

namespace veery {

/// A double-array trie (Darts) that maps keys of at most 256 bytes to offsets of zero-terminated
/// replacements. Layout: uint32 size of the trie in bytes, the trie, the replacements.
class Charsmap {
 public:
  /// Throws kFormat if the sizes are inconsistent.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    size_t length = 0;  ///< bytes of the text to replace; 0: no match
    std::string_view replacement;
  };
  Match shortest(std::string_view text) const;
  Match longest(std::string_view text) const;

  /// Replaces text like "Precompiled" of Hugging Face's tokenizers: by grapheme clusters if they
  /// are short, otherwise by characters. Throws kLimit, naming `step`, if the text becomes longer
  /// than `growth` permits.
  std::string by_graphemes(std::string_view text, std::string_view step,
                           const Growth& growth) const;

  /// Replaces text like SentencePiece: the longest match at each position; malformed bytes become
  /// U+FFFD. Throws as by_graphemes().
  std::string by_longest(std::string_view text, std::string_view step, const Growth& growth) const;

 private:
  template <typename Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const;
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string blob_;
};

}  // namespace veery

// charsmap.h: the character map that SentencePiece compiles into its models.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/common/growth.h"

namespace veery {

/// A double array (Darts) of byte strings, each with a place in a blob of zero-terminated
/// replacements; keys have at most 256 bytes. The layout is uint32 size of the array in bytes, the
/// array, the blob.
class Charsmap {
 public:
  /// Throws kFormat if the sizes do not fit together.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    size_t length = 0;  ///< bytes of the text that are replaced; 0: none
    std::string_view replacement;
  };
  Match shortest(std::string_view text) const;
  Match longest(std::string_view text) const;

  /// As Hugging Face's "Precompiled": by grapheme clusters where they are short, else by
  /// characters. Throws kLimit, naming `step`, where the text becomes longer than `growth` allows.
  std::string by_graphemes(std::string_view text, std::string_view step,
                           const Growth& growth) const;

  /// As SentencePiece: the longest match at each place; malformed bytes become U+FFFD.
  /// Throws as by_graphemes().
  std::string by_longest(std::string_view text, std::string_view step, const Growth& growth) const;

 private:
  template <typename Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const;
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string blob_;
};

}  // namespace veery

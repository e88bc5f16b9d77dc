// sequence_template.h: one text or two as a model takes them: with special tokens around, the
// segment of each token, and a greatest length.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace veery {

/// Token ids and, for each, its segment (BERT's token type id).
struct Encoding {
  std::vector<int32_t> ids, types;
  size_t cut = 0;  ///< tokens of the texts for which the greatest length left no room
};

/// Where tokens stand: special ones by their id, those of the texts by which text it is.
struct SequenceTemplate {
  static constexpr int32_t kFirst = -1, kSecond = -2;
  struct Part {
    int32_t id;  ///< of a special token, or kFirst, kSecond: all tokens of that text
    int32_t type = 0;
  };
  using Parts = std::vector<Part>;
  Parts single{{kFirst, 0}};
  Parts pair{{kFirst, 0}, {kSecond, 1}};  ///< empty: pairs are not known

  /// `before` text `after`, and for two texts `before` first `after` `between` second `after`,
  /// where all behind `between` is of segment `second_type`.
  static SequenceTemplate around(const std::vector<int32_t>& before,
                                 const std::vector<int32_t>& after,
                                 const std::vector<int32_t>& between, int32_t second_type);

  static size_t special_tokens(const Parts& parts);
};

using TokenIds = std::vector<int32_t>;

/// Puts the texts into their places; special tokens only if `add_special`.
Encoding fill_template(const SequenceTemplate::Parts& parts, const TokenIds& first,
                       const TokenIds& second, bool add_special);

/// Which of two texts gives way: the longer one, until both are of a length; or always the same.
enum class TruncationStrategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };

struct Truncation {
  size_t longest = SIZE_MAX;  ///< ids, special tokens included
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;
  bool keeps_end = false;  ///< of each text; else its beginning

  /// Cuts `text` so that it fits with `special` tokens beside it; where these alone are too many,
  /// nothing of it is left. Returns how many tokens were cut off.
  size_t apply(size_t special, TokenIds& text) const;
  /// The same for two texts. Throws kInput if the strategy names a text that would have to lose all
  /// of its tokens or more.
  size_t apply(size_t special, TokenIds& first, TokenIds& second) const;

 private:
  size_t cut(TokenIds& text, size_t room) const;
};

}  // namespace veery

// sequence_template.h: model input of one text or a pair of texts, with special tokens, segment ids
// and truncation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace veery {

/// Token ids with their segment ids (BERT's token type ids).
struct Encoding {
  std::vector<int32_t> ids, types;
  size_t cut = 0;  ///< number of text tokens that truncation removed
};

/// Positions of special tokens and texts in the model input.
struct SequenceTemplate {
  static constexpr int32_t kFirst = -1, kSecond = -2;
  struct Part {
    int32_t id;  ///< id of a special token, or kFirst or kSecond for all tokens of that text
    int32_t type = 0;
  };
  using Parts = std::vector<Part>;
  Parts single{{kFirst, 0}};
  Parts pair{{kFirst, 0}, {kSecond, 1}};  ///< empty: pairs are not supported

  /// Returns the templates `before` text `after`, and for pairs `before` first `after` `between`
  /// second `after`. The second text and the `after` that follows it have segment `second_type`.
  static SequenceTemplate around(const std::vector<int32_t>& before,
                                 const std::vector<int32_t>& after,
                                 const std::vector<int32_t>& between, int32_t second_type);

  static size_t special_tokens(const Parts& parts);
};

using TokenIds = std::vector<int32_t>;

/// Inserts the texts into a template; special tokens only if `add_special`.
Encoding fill_template(const SequenceTemplate::Parts& parts, const TokenIds& first,
                       const TokenIds& second, bool add_special);

/// Which text of a pair is truncated: the longer one until both have the same length, or always the
/// same one.
enum class TruncationStrategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };

struct Truncation {
  size_t longest = SIZE_MAX;  ///< maximum number of ids, including special tokens
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;
  bool keeps_end = false;  ///< keeps the end of a text instead of its beginning

  /// Truncates `text` to fit beside `special` special tokens; if these alone exceed the limit, the
  /// text becomes empty. Returns the number of removed tokens.
  size_t apply(size_t special, TokenIds& text) const;
  /// The same for a pair. Throws kInput if the strategy's text would have to lose all of its tokens
  /// or more.
  size_t apply(size_t special, TokenIds& first, TokenIds& second) const;

 private:
  size_t cut(TokenIds& text, size_t room) const;
};

}  // namespace veery

// control_guard.h: prevents control tokens in message texts from being parsed as tokens:
// "<|im_end|>" typed by a user must not end the turn.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pipeline/added_tokens.h"

namespace veery {

/// Inserts a guard mark into control tokens that occur in texts. The tokenizer matches no token
/// across the mark and then drops it (EncodeOptions::guard). Texts without control tokens are
/// encoded as without a guard. Immutable.
class ControlGuard {
 public:
  /// `tokens`: the texts of control tokens (Tokenizer::control_tokens()).
  explicit ControlGuard(const std::vector<std::string>& tokens = {});

  /// Returns whether a string or key in `value` contains a control token, or ends with the prefix
  /// of one that the following text could complete.
  bool finds(const Json& value) const;
  /// Returns whether the text contains a whole control token.
  bool finds_token(std::string_view text) const;

  /// Selects tokens that remain control tokens.
  using Exempt = std::function<bool(std::string_view token)>;
  /// Returns `value` with `mark` inserted after the first character of each control token in its
  /// strings and keys. The mark is also appended to strings that end with the prefix of a control
  /// token.
  Json guarded(const Json& value, std::string_view mark, const Exempt& exempt = {}) const;

  /// Returns a mark that does not occur in `text`. It consists of Unicode noncharacters, which are
  /// valid UTF-8 without a meaning.
  static std::string mark_for(std::string_view text);

 private:
  std::string guarded_text(std::string_view text, std::string_view mark,
                           const Exempt& exempt) const;
  bool ends_inside(std::string_view text) const;

  std::vector<std::string> tokens_;  // sorted
  size_t longest_ = 0;
  AddedTokenMatcher matcher_;
};

}  // namespace veery

// control_guard.h: keeps control tokens that stand in the texts of a conversation from being read
// as tokens: "<|im_end|>" typed by a user is text and ends no turn.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pipeline/added_tokens.h"

namespace veery {

/// Inserts a mark into control tokens. A tokenizer that is given the mark (EncodeOptions::guard)
/// finds no token across it and drops it afterwards, so a text without control tokens is encoded
/// as if there were no guard. Immutable.
class ControlGuard {
 public:
  /// `tokens`: the texts of control tokens (Tokenizer::control_tokens()).
  explicit ControlGuard(const std::vector<std::string>& tokens = {});

  /// Whether a string or key of `value` contains a control token, or ends with the beginning of
  /// one, which the text after it could complete.
  bool finds(const Json& value) const;
  /// Whether the text contains a whole control token.
  bool finds_token(std::string_view text) const;

  /// Tokens that keep their meaning.
  using Exempt = std::function<bool(std::string_view token)>;
  /// Inserts `mark` into each control token of the strings and keys of `value`, after its first
  /// character, and appends it where a string ends with the beginning of one.
  Json guarded(const Json& value, std::string_view mark, const Exempt& exempt = {}) const;

  /// A mark that does not occur in `text`: Unicode noncharacters, which are valid UTF-8 and mean
  /// nothing.
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

#include "text/answer/call_scanner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"

namespace veery {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

template <size_t n>
bool one_of(std::string_view key, const std::array<std::string_view, n>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}
constexpr std::array<std::string_view, 3> kNames = {"name", "tool_name", "function"};
constexpr std::array<std::string_view, 2> kArguments = {"arguments", "parameters"};
constexpr std::array<std::string_view, 3> kIds = {"id", "tool_call_id", "call_id"};

bool is_known(std::string_view key) {
  return one_of(key, kNames) || one_of(key, kArguments) || one_of(key, kIds) || key == "type";
}

}  // namespace

std::vector<std::string> CallScanner::known_keys() {
  std::vector<std::string> keys{"type"};
  keys.insert(keys.end(), kNames.begin(), kNames.end());
  keys.insert(keys.end(), kArguments.begin(), kArguments.end());
  keys.insert(keys.end(), kIds.begin(), kIds.end());
  return keys;
}

std::string unquoted(std::string_view body) {
  const std::optional<Json> text = maybe_json("\"" + std::string(body) + "\"");
  return text && text->is_string() ? text->string() : std::string();
}

unsigned CallScanner::feed(char c) {
  if (state_ == State::kFailed) return kFail;
  if (state_ == State::kOutside) return outside(c);
  if (state_ == State::kValue) return in_value(c);
  if (state_ == State::kKey) {
    if (!text_over(c)) return key_ += c, kNone;
    key_ = unquoted(key_);
    state_ = State::kAfterKey;
    return bare_ && !is_known(key_) ? fail() : kNone;
  }
  if (is_space(c)) return kNone;
  if (state_ == State::kBeforeValue) return before_value(c);
  if (state_ == State::kAfterKey) {
    if (c != ':') return fail();
    state_ = State::kBeforeValue;
    return kNone;
  }
  if (c == '}') return object_over();
  if (state_ == State::kAfterValue) {
    if (c != ',') return fail();
    state_ = State::kBeforeKey;
    return kNone;
  }
  if (c != '"') return fail();
  key_.clear();
  in_string_ = true;
  state_ = State::kKey;
  return kNone;
}

unsigned CallScanner::fail() {
  state_ = State::kFailed;
  in_string_ = false;
  return kFail;
}

unsigned CallScanner::outside(char c) {
  if (is_space(c) || c == ',' || c == ';' || c == '[' || c == ']') return kNone;
  if (c != '{') return kLeave;
  *this = CallScanner(bare_);
  state_ = State::kBeforeKey;
  return kNone;
}

// Returns whether `c` is the quote that ends the string.
bool CallScanner::text_over(char c) {
  if (escape_) {
    escape_ = false;
  } else if (c == '\\') {
    escape_ = true;
  } else if (c == '"') {
    in_string_ = false;
    return true;
  }
  return false;
}

unsigned CallScanner::before_value(char c) {
  const bool first = std::exchange(first_key_, false);
  if (key_ == "function" && c == '{') {
    ++wraps_;
    first_key_ = true;
    state_ = State::kBeforeKey;
    return kNone;
  }
  role_ = Role::kOther;
  if (c == '"')
    role_ = one_of(key_, kNames)       ? Role::kName
            : one_of(key_, kIds)       ? Role::kId
            : one_of(key_, kArguments) ? Role::kQuoted
                                       : Role::kOther;
  else if (one_of(key_, kArguments) && (c == '{' || c == '['))
    role_ = Role::kArguments;
  else if (first && c == '{' && !is_known(key_))
    role_ = Role::kNamed;
  state_ = State::kValue;
  value_.clear();
  escaped_.clear();
  depth_ = 0;
  text_ = c == '"';
  plain_ = c != '"' && c != '{' && c != '[';
  in_string_ = text_;
  unsigned step = kNone;
  if ((role_ == Role::kArguments || role_ == Role::kQuoted) && !name_.empty()) step = begin();
  return text_ ? step : step | in_value(c);
}

unsigned CallScanner::begin() {
  if (begun_) return kNone;
  begun_ = true;
  arguments_ = std::exchange(given_, {});
  return kBegin;
}

// Processes one byte of a string that contains JSON.
void CallScanner::unquote(char c) {
  std::string& out = begun_ ? arguments_ : given_;
  escaped_ += c;
  if (escaped_.front() != '\\') {
    out += std::exchange(escaped_, {});
    return;
  }
  // A surrogate pair such as \uD83D\uDE00 is one character.
  const bool high = escaped_.size() >= 4 && escaped_[1] == 'u' &&
                    (escaped_[2] == 'd' || escaped_[2] == 'D') &&
                    std::string_view("89abAB").find(escaped_[3]) != std::string_view::npos;
  const size_t whole = escaped_.size() == 1 || escaped_[1] != 'u' ? 2 : high ? 12 : 6;
  const bool torn =
      high && ((escaped_.size() == 7 && c != '\\') || (escaped_.size() == 8 && c != 'u'));
  if (escaped_.size() < whole && !torn) return;
  const std::string text = unquoted(escaped_);
  out += text.empty() ? "\xEF\xBF\xBD" : text;
  escaped_.clear();
}

unsigned CallScanner::in_value(char c) {
  if (in_string_) {
    if (!text_over(c)) {
      if (role_ == Role::kQuoted) return unquote(c), kNone;
      if (text_) return value_ += c, kNone;
    } else if (text_) {
      return value_over();
    }
  } else if (plain_) {
    if (c == ',' || c == '}' || c == ']' || is_space(c)) {
      state_ = State::kAfterValue;
      return feed(c);
    }
    return kNone;
  } else {
    in_string_ = c == '"';
    depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
  }
  if (role_ == Role::kArguments) (begun_ ? arguments_ : given_) += c;
  if (role_ == Role::kNamed) value_ += c;
  return depth_ == 0 && !in_string_ ? value_over() : kNone;
}

unsigned CallScanner::value_over() {
  state_ = State::kAfterValue;
  switch (role_) {
    case Role::kOther: return kNone;
    case Role::kId: id_ = unquoted(value_); return kNone;
    case Role::kName:
      if (name_.empty()) name_ = unquoted(value_);
      return given_.empty() || name_.empty() ? kNone : begin();
    case Role::kNamed:
      if (name_.empty() && given_.empty()) {
        name_ = key_;
        given_ = value_;
        arguments_over_ = true;
      }
      return kNone;
    case Role::kArguments:
    case Role::kQuoted: arguments_over_ = true; return kNone;
  }
  return kNone;
}

unsigned CallScanner::object_over() {
  if (wraps_ > 0) {
    --wraps_;
    state_ = State::kAfterValue;
    return kNone;
  }
  if (name_.empty() || (bare_ && !begun_)) return fail();
  state_ = State::kOutside;
  arguments_over_ = true;
  return begin() | kEnd;
}

}  // namespace veery

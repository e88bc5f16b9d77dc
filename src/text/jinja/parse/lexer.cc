#include "text/jinja/parse/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/utf8.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

using Kind = Token::Kind;
constexpr size_t kNowhere = std::string_view::npos;

bool digit(char c) { return c >= '0' && c <= '9'; }
bool name_byte(char c) {
  return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Converts line ends to \n and removes one at the end.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize(source)) {}
  std::vector<Token> run();

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(size_t offset = 0) const {
    return at_ + offset < source_.size() ? source_[at_ + offset] : '\0';
  }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }
  void skip_space() { at_ = source_.size() - strip_left(rest()).size(); }
  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) {
    locate();
    fail("line {}, column {}: {}", line_, column(),
         fmt::format(format, std::forward<Args>(args)...));
  }
  // Counts lines up to the current position; each line is counted once.
  void locate() {
    for (; counted_ < std::min(at_, source_.size()); ++counted_) {
      if (source_[counted_] != '\n') continue;
      ++line_;
      line_start_ = counted_ + 1;
    }
  }
  int column() const { return static_cast<int>(at_ - std::min(at_, line_start_)) + 1; }
  void put(Kind kind, std::string text) {
    locate();
    tokens_.push_back({kind, line_, column(), std::move(text)});
  }

  void put_text(std::string_view text, char sign, bool is_output);
  void tag();
  void comment();
  bool raw();
  void inside(bool is_output);
  bool end_tag(bool is_output);
  void token();
  bool number();
  void string_literal();
  std::string unescape(std::string_view body);
  void operator_token();
  void after_block_end(char sign);

  std::string source_;
  size_t at_ = 0, counted_ = 0, line_start_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the next text is at the start of a line
  std::vector<char> open_;     // expected closing brackets
  std::vector<Token> tokens_;
};

void Lexer::put_text(std::string_view text, char sign, bool is_output) {
  if (sign == '-') {
    text = strip_right(text);
  } else if (sign != '+' && !is_output) {
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == kNowhere ? 0 : newline + 1;
    if ((begin > 0 || line_starting_) && strip_left(text.substr(begin)).empty())
      text = text.substr(0, begin);
  }
  if (!text.empty()) put(Kind::kData, std::string(text));
}

std::vector<Token> Lexer::run() {
  while (at_ < source_.size()) {
    size_t tag_at = source_.find('{', at_);
    while (tag_at != kNowhere && (tag_at + 1 == source_.size() ||
                                  std::string_view("%{#").find(source_[tag_at + 1]) == kNowhere))
      tag_at = source_.find('{', tag_at + 1);
    if (tag_at == kNowhere) {
      put(Kind::kData, source_.substr(at_));
      at_ = source_.size();
      break;
    }
    const std::string_view text = rest().substr(0, tag_at - at_);
    const char type = source_[tag_at + 1];
    const char next = tag_at + 2 < source_.size() ? source_[tag_at + 2] : '\0';
    const char sign = next == '-' || next == '+' ? next : '\0';
    put_text(text, sign, type == '{');
    at_ = tag_at;
    locate();
    if (type == '%' && raw()) continue;
    at_ += sign == '\0' ? 2 : 3;
    if (type == '#') {
      comment();
    } else {
      put(type == '{' ? Kind::kOutputBegin : Kind::kBlockBegin, "");
      inside(type == '{');
    }
  }
  put(Kind::kEnd, "end of template");
  return std::move(tokens_);
}

// After "%}" or "#}": a minus sign strips all whitespace, a plus sign none, otherwise one line end
// is removed.
void Lexer::after_block_end(char sign) {
  const size_t before = at_;
  if (sign == '-')
    skip_space();
  else if (sign != '+' && peek() == '\n')
    ++at_;
  line_starting_ = at_ > before && source_[at_ - 1] == '\n';
}

void Lexer::comment() {
  const size_t begin = at_;
  const size_t end = source_.find("#}", at_);
  if (end == kNowhere) fail_here("unterminated comment");
  const char sign = end > begin ? source_[end - 1] : '\0';
  at_ = end + 2;
  after_block_end(sign);
}

// Reads a raw block, if one begins here: its text is data.
bool Lexer::raw() {
  const size_t start = at_;
  at_ += peek(2) == '-' || peek(2) == '+' ? 3 : 2;
  skip_space();
  bool found = looking_at("raw");
  if (found) {
    at_ += 3;
    skip_space();
    found = looking_at("%}") || looking_at("-%}");
  }
  if (!found) {
    at_ = start;
    return false;
  }
  const bool strips = peek() == '-';
  at_ += strips ? 3 : 2;
  line_starting_ = false;
  if (strips) after_block_end('-');
  const size_t begin = at_;
  for (size_t tag = source_.find("{%", at_); tag != kNowhere; tag = source_.find("{%", tag + 1)) {
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    at_ = tag + (sign == '-' || sign == '+' ? 3 : 2);
    skip_space();
    if (!looking_at("endraw")) continue;
    at_ += 6;
    skip_space();
    const char end_sign = peek() == '-' || peek() == '+' ? peek() : '\0';
    if (end_sign != '\0') ++at_;
    if (!looking_at("%}")) continue;
    const size_t after = at_ + 2;
    put_text(std::string_view(source_).substr(begin, tag - begin), sign, false);
    at_ = after;
    after_block_end(end_sign);
    return true;
  }
  at_ = start;
  fail_here("unterminated raw block");
}

bool Lexer::end_tag(bool is_output) {
  if (!open_.empty()) return false;
  const std::string_view end = is_output ? "}}" : "%}";
  char sign = peek() == '-' || (peek() == '+' && !is_output) ? peek() : '\0';
  if (!rest().substr(sign == '\0' ? 0 : 1).starts_with(end)) return false;
  put(is_output ? Kind::kOutputEnd : Kind::kBlockEnd, std::string(end));
  at_ += sign == '\0' ? 2 : 3;
  if (is_output && sign == '\0') sign = '+';
  after_block_end(sign);
  return true;
}

void Lexer::inside(bool is_output) {
  open_.clear();
  while (!end_tag(is_output)) {
    const size_t before = at_;
    skip_space();
    if (at_ != before) continue;
    if (at_ >= source_.size()) fail_here("unterminated tag");
    token();
  }
}

void Lexer::token() {
  const char c = peek();
  if (digit(c) && number()) return;
  if (name_byte(c)) {
    size_t n = 0;
    while (name_byte(peek(n))) ++n;
    const std::string name(rest().substr(0, n));
    const char32_t first = next_code_point(name).value;
    if (first >= 0x80 && !is_word(first)) fail_here("unexpected character in '{}'", name);
    put(Kind::kName, name);
    at_ += n;
  } else if (c == '\'' || c == '"') {
    string_literal();
  } else {
    operator_token();
  }
}

bool Lexer::number() {
  const std::string_view text = rest();
  const auto digits = [&](size_t i) {  // end of digits with single underscores, or i
    while (i < text.size() && digit(text[i]))
      i += i + 2 < text.size() && text[i + 1] == '_' && digit(text[i + 2]) ? 2 : 1;
    return i;
  };
  const size_t whole = digits(0);
  size_t end = whole;
  const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
  if (!after_dot) {
    if (end + 1 < text.size() && text[end] == '.' && digit(text[end + 1])) end = digits(end + 1);
    if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
      size_t i = end + 1;
      if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
      if (i < text.size() && digit(text[i])) end = digits(i);
    }
  }
  if (end > whole) {
    put(Kind::kFloat, std::string(text.substr(0, end)));
    at_ += end;
    return true;
  }
  if (text[0] == '0' && text.size() > 2 && std::string_view("xXoObB").find(text[1]) != kNowhere) {
    end = 2;
    while (end < text.size() &&
           (std::isxdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
  } else if (text[0] == '0') {
    end = 1;
    while (end < text.size() && text[end] == '0') ++end;
  }
  put(Kind::kInteger, std::string(text.substr(0, end)));
  at_ += end;
  return true;
}

void Lexer::string_literal() {
  const char quote = peek();
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) fail_here("unterminated string");
  std::string value = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
  put(Kind::kString, std::move(value));
  at_ = end + 1;
}

// Converts the escapes of Python string literals; unknown ones are kept.
std::string Lexer::unescape(std::string_view body) {
  constexpr std::string_view kPlain = "\\'\"abfnrtv";
  constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out.push_back(body[i]);
      continue;
    }
    const char c = body[++i];
    if (const size_t known = kPlain.find(c); known != kNowhere) {
      out.push_back(kMeaning[known]);
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t n = 0;
      for (; n < 3 && i + n < body.size() && body[i + n] >= '0' && body[i + n] <= '7'; ++n)
        code = code * 8 + static_cast<char32_t>(body[i + n] - '0');
      i += n - 1;
      append_utf8(out, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string digits(body.substr(i + 1, n));
      if (digits.size() < n ||
          !std::ranges::all_of(digits, [](unsigned char d) { return std::isxdigit(d) != 0; }))
        fail_here("the escape \\{}{} is incomplete", c, digits);
      const auto code = static_cast<char32_t>(std::stoul(digits, nullptr, 16));
      if (code > 0x10FFFF) fail_here("the escape \\{}{} is not a character", c, digits);
      append_utf8(out, code >= 0xD800 && code < 0xE000 ? kReplacementCharacter : code);
      i += n;
    } else if (c == 'N') {
      fail_here("named escapes (\\N) are not supported");
    } else if (c != '\n') {
      out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

void Lexer::operator_token() {
  constexpr std::array<std::string_view, 26> kOperators = {
      "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  const auto found =
      std::ranges::find_if(kOperators, [&](std::string_view op) { return looking_at(op); });
  if (found == kOperators.end()) fail_here("unexpected character '{}'", peek());
  switch ((*found)[0]) {
    case '(': open_.push_back(')'); break;
    case '[': open_.push_back(']'); break;
    case '{': open_.push_back('}'); break;
    case ')':
    case ']':
    case '}':
      if (open_.empty()) fail_here("unmatched '{}'", *found);
      if (open_.back() != (*found)[0]) fail_here("found '{}', expected '{}'", *found, open_.back());
      open_.pop_back();
      break;
    default: break;
  }
  put(Kind::kOperator, std::string(*found));
  at_ += found->size();
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace veery::jinja

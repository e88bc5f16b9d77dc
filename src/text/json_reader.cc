#include "text/json_reader.h"

#include <charconv>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace veery {
namespace {

bool is_number_character(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string what, int max_depth)
    : text_(text), what_(std::move(what)), max_depth_(max_depth) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text_.substr(0, 3) == kByteOrderMark) at_ = 3;
}

void JsonReader::fail(std::string_view expected) const {
  const std::string found =
      at_ < text_.size() ? "\"" + valid_utf8(text_.substr(at_, 24)) + "\"" : std::string("the end");
  throw Error(ErrorKind::kFormat, "{}: byte {}: expected {}, found {}", what_, at_, expected,
              found);
}

char JsonReader::current() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    ++at_;
  }
  return '\0';
}

void JsonReader::expect(char c, std::string_view what) {
  if (current() != c || at_ >= text_.size()) fail(what);
  ++at_;
}

void JsonReader::literal(std::string_view word) {
  current();
  if (text_.substr(at_, word.size()) != word) fail(word);
  at_ += word.size();
}

JsonReader::Kind JsonReader::peek() {
  switch (current()) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't':
    case 'f': return Kind::kBool;
    case 'n': return Kind::kNull;
    case '-': return Kind::kNumber;
    default: break;
  }
  if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') fail("a value");
  return Kind::kNumber;
}

void JsonReader::begin_object() {
  expect('{', "an object");
  if (++depth_ > max_depth_)
    throw Error(ErrorKind::kFormat, "{}: more than {} levels deep", what_, max_depth_);
  first_ = true;
}

void JsonReader::begin_array() {
  expect('[', "an array");
  if (++depth_ > max_depth_)
    throw Error(ErrorKind::kFormat, "{}: more than {} levels deep", what_, max_depth_);
  first_ = true;
}

// Steps to the next item of the innermost container; false, and out of it, if there is none.
bool JsonReader::next_of(char close) {
  const char c = current();
  if (at_ < text_.size() && c == close) {
    ++at_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    expect(',', close == '}' ? "\",\" or \"}\"" : "\",\" or \"]\"");
    if (current() == close) fail("another item");
  }
  first_ = false;
  return true;
}

bool JsonReader::next_key(std::string_view& key) {
  if (!next_of('}')) return false;
  key = string();
  expect(':', "\":\"");
  return true;
}

bool JsonReader::next_item() { return next_of(']'); }

std::string_view JsonReader::string() {
  expect('"', "a string");
  const size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') return text_.substr(begin, at_++ - begin);
    if (c == '\\') return unescaped(begin);
    if (static_cast<unsigned char>(c) < 0x20) fail("no control character in a string");
  }
  fail("the end of a string");
}

uint32_t JsonReader::hex_digits() {
  uint32_t value = 0;
  const char* begin = text_.data() + at_;
  if (at_ + 4 > text_.size()) fail("four hexadecimal digits");
  const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
  if (error != std::errc() || end != begin + 4) fail("four hexadecimal digits");
  at_ += 4;
  return value;
}

// The string from `begin`, whose first escape is at the cursor.
std::string_view JsonReader::unescaped(size_t begin) {
  std::string& out = arena_.emplace_back(text_.substr(begin, at_ - begin));
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) fail("no control character in a string");
    ++at_;
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    const char name = at_ < text_.size() ? text_[at_] : '\0';
    const size_t known = kNames.find(name);
    if (name != 'u' && (known == std::string_view::npos || name == '\0')) fail("an escape");
    ++at_;
    if (name != 'u') {
      out += kValues[known];
      continue;
    }
    char32_t code = hex_digits();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const uint32_t low = hex_digits();
      if (low < 0xDC00 || low > 0xDFFF) fail("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code <= 0xDFFF) fail("a surrogate pair");
    append_utf8(out, code);
  }
  fail("the end of a string");
}

void JsonReader::skip_string() {
  expect('"', "a string");
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') {
      ++at_;
      return;
    }
    if (text_[at_] == '\\') ++at_;
  }
  fail("the end of a string");
}

std::string_view JsonReader::number_text() {
  if (peek() != Kind::kNumber) fail("a number");
  const size_t begin = at_;
  while (at_ < text_.size() && is_number_character(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

int64_t JsonReader::integer() {
  const size_t begin = (current(), at_);
  const std::string_view digits = number_text();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  at_ = begin;
  fail("an integer");
}

double JsonReader::number() {
  const size_t begin = (current(), at_);
  const std::string_view digits = number_text();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool read = error == std::errc() || error == std::errc::result_out_of_range;
  if (read && end == digits.data() + digits.size()) return value;
  at_ = begin;
  fail("a number");
}

bool JsonReader::boolean() {
  if (peek() != Kind::kBool) fail("true or false");
  const bool value = text_[at_] == 't';
  literal(value ? "true" : "false");
  return value;
}

void JsonReader::null() { literal("null"); }

std::string_view JsonReader::raw() {
  const size_t begin = (current(), at_);
  std::vector<char> open;  // the brackets that wait for their end
  do {
    if (!open.empty()) {
      if (!next_of(open.back())) {
        open.pop_back();
        continue;
      }
      if (open.back() == '}') {
        skip_string();
        expect(':', "\":\"");
      }
    }
    switch (peek()) {
      case Kind::kObject:
        begin_object();
        open.push_back('}');
        break;
      case Kind::kArray:
        begin_array();
        open.push_back(']');
        break;
      case Kind::kString: skip_string(); break;
      case Kind::kNumber: number_text(); break;
      case Kind::kBool: boolean(); break;
      case Kind::kNull: null(); break;
    }
  } while (!open.empty());
  return text_.substr(begin, at_ - begin);
}

void JsonReader::finish() {
  current();
  if (at_ < text_.size()) fail("the end");
}

}  // namespace veery

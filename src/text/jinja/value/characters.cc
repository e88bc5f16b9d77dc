#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

int category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

char32_t simple_upper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t simple_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t simple_title(char32_t c) {
  if (c < 0x80) return simple_upper(c);
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

// Common letters whose upper case has several letters (SpecialCasing.txt).
std::string_view long_upper(char32_t c, bool is_title_case) {
  switch (c) {
    case 0xDF: return is_title_case ? "Ss" : "SS";
    case 0x149: return "\u02BCN";
    case 0xFB00: return is_title_case ? "Ff" : "FF";
    case 0xFB01: return is_title_case ? "Fi" : "FI";
    case 0xFB02: return is_title_case ? "Fl" : "FL";
    case 0xFB03: return is_title_case ? "Ffi" : "FFI";
    case 0xFB04: return is_title_case ? "Ffl" : "FFL";
    case 0xFB05:
    case 0xFB06: return is_title_case ? "St" : "ST";
    default: return {};
  }
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

void put_upper(std::string& out, char32_t c, bool is_title_case) {
  if (const std::string_view text = long_upper(c, is_title_case); !text.empty())
    out += text;
  else
    append_utf8(out, is_title_case ? simple_title(c) : simple_upper(c));
}

// Sigma has another form at the end of a word (SpecialCasing.txt, Final_Sigma).
void put_lower(std::string& out, char32_t c, char32_t before, std::string_view rest) {
  if (c == 0x130) {
    out += "i\u0307";
  } else if (c == 0x3A3) {
    const bool ends = rest.empty() || !is_cased(next_code_point(rest).value);
    append_utf8(out, ends && is_cased(before) ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, simple_lower(c));
  }
}

// Calls step(code point, its bytes, the following text, the previous code point) for each code
// point.
template <typename Step>
void walk(std::string_view text, const Step& step) {
  spend_text(text.size());
  char32_t before = 0;
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    const auto n = static_cast<size_t>(point.length);
    step(point.value, text.substr(0, n), text.substr(n), before);
    before = point.value;
    text.remove_prefix(n);
  }
}

bool splits_words(char32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_letter(char32_t c) {
  const int kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_numeric(char32_t c) {
  const int kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}
bool is_upper(char32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t c) {
  return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL;
}
bool is_word(char32_t c) { return c == '_' || is_letter(c) || is_numeric(c); }

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  const int kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}

bool all_code_points(std::string_view text, bool (*test)(char32_t)) {
  if (text.empty()) return false;
  Meter meter;
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    const auto n = static_cast<size_t>(point.length);
    meter.add(n * kBytesPerStep / 3);
    if (!test(point.value)) return false;
    text.remove_prefix(n);
  }
  return true;
}

bool has_case(std::string_view text, bool want_upper) {
  bool found = false;
  bool other = false;
  walk(text, [&](char32_t c, std::string_view, std::string_view, char32_t) {
    found = found || (want_upper ? is_upper(c) : is_lower(c));
    other = other || (want_upper ? is_lower(c) : is_upper(c));
  });
  return found && !other;
}

bool is_title(std::string_view text) {
  bool found = false;
  bool fits = true;
  walk(text, [&](char32_t c, std::string_view, std::string_view, char32_t before) {
    if (is_upper(c)) fits = fits && !is_cased(before);
    if (is_lower(c)) fits = fits && is_cased(before);
    found = found || is_cased(c);
  });
  return found && fits;
}

std::string upper(std::string_view text) {
  std::string out;
  expect_memory(text.size() * 2);
  walk(text, [&](char32_t c, auto, auto, char32_t) { put_upper(out, c, false); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  expect_memory(text.size() * 2);
  walk(text, [&](char32_t c, auto, std::string_view rest, char32_t before) {
    put_lower(out, c, before, rest);
  });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  expect_memory(text.size() * 2);
  walk(text, [&](char32_t c, auto, std::string_view rest, char32_t before) {
    if (is_upper(c))
      put_lower(out, c, before, rest);
    else
      put_upper(out, c, false);
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  expect_memory(text.size() * 2);
  bool first = true;
  walk(text, [&](char32_t c, auto, std::string_view rest, char32_t before) {
    if (first)
      put_upper(out, c, true);
    else
      put_lower(out, c, before, rest);
    first = false;
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  expect_memory(text.size() * 2);
  walk(text, [&](char32_t c, auto, std::string_view rest, char32_t before) {
    if (is_cased(before))
      put_lower(out, c, before, rest);
    else
      put_upper(out, c, true);
  });
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  expect_memory(text.size() * 2);
  bool first = true;
  walk(text, [&](char32_t c, auto, std::string_view rest, char32_t before) {
    if (first && !splits_words(c))
      put_upper(out, c, false);
    else
      put_lower(out, c, before, rest);
    first = splits_words(c);
  });
  return out;
}

size_t count_words(std::string_view text) {
  size_t words = 0;
  walk(text, [&](char32_t c, auto, auto, char32_t before) {
    words += is_word(c) && (before == 0 || !is_word(before));
  });
  return words;
}

void append_quoted(Builder& out, std::string_view text) {
  const bool twice = find_text(text, "'") != std::string_view::npos &&
                     find_text(text, "\"") == std::string_view::npos;
  const char quote = twice ? '"' : '\'';
  out.append(quote);
  walk(text, [&](char32_t c, std::string_view piece, auto, char32_t) {
    if (c == static_cast<char32_t>(quote) || c == '\\') out.append('\\');
    if (is_printable(c)) {
      out.append(piece);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else {
      const auto code = static_cast<uint32_t>(c);
      out.append(code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U");
      append_hex(out, code, code < 0x100 ? 2 : code < 0x10000 ? 4 : 8);
    }
  });
  out.append(quote);
}

}  // namespace veery::jinja

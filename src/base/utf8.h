// utf8.h: stepping through UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace veery {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// The code point at the front of `text` (not empty) and its length in bytes. A malformed sequence
/// gives U+FFFD and the length of its longest valid prefix, at least 1 (Unicode 15, section 3.9).
struct CodePoint {
  char32_t value;
  int length;
  bool valid;
};
CodePoint next_code_point(std::string_view text);

void append_utf8(std::string& out, char32_t code);

/// The number of bytes at the end of `text` that begin a sequence whose rest has not arrived: 0
/// to 3.
int incomplete_utf8_suffix(std::string_view text);

/// `text` with line ends of Windows (CR LF) as LF.
std::string unix_lines(std::string text);

/// `text` with each malformed sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace veery

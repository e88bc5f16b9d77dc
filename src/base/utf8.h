// utf8.h: decoding, encoding and validation of UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace veery {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// The first code point of `text` (not empty) and its length in bytes. A malformed sequence yields
/// U+FFFD and the length of its longest valid prefix, at least 1 (Unicode 15, section 3.9).
struct CodePoint {
  char32_t value;
  int length;
  bool valid;
};
CodePoint next_code_point(std::string_view text);

void append_utf8(std::string& out, char32_t code);

/// Returns the number of bytes (0 to 3) at the end of `text` that begin an incomplete sequence.
int incomplete_utf8_suffix(std::string_view text);

/// Returns `text` with Windows line ends (CR LF) replaced by LF.
std::string unix_lines(std::string text);

/// Returns `text` with each malformed sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace veery

#include "base/utf8.h"

#include <algorithm>

namespace veery {
namespace {

struct Lead {
  int length;
  unsigned char second_min,
      second_max;  // bounds of the second byte, which exclude overlong forms and surrogates
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

}  // namespace

CodePoint next_code_point(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = classify(at(0));
  if (lead.length == 1) return {at(0), 1, true};
  if (lead.length == 0) return {kReplacementCharacter, 1, false};
  char32_t code = at(0) & (0x7FU >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (static_cast<size_t>(i) >= text.size() || at(i) < low || at(i) > high)
      return {kReplacementCharacter, i, false};
    code = (code << 6) | (at(i) & 0x3FU);
  }
  return {code, lead.length, true};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

int incomplete_utf8_suffix(std::string_view text) {
  const int longest = static_cast<int>(std::min<size_t>(3, text.size()));
  for (int n = 1; n <= longest; ++n) {
    const std::string_view tail = text.substr(text.size() - static_cast<size_t>(n));
    const auto lead = static_cast<unsigned char>(tail[0]);
    if ((lead & 0xC0U) == 0x80U) continue;  // a continuation byte: the lead byte is further left
    const CodePoint point = next_code_point(tail);
    const bool cut_off = !point.valid && point.length == n && classify(lead).length > n;
    return cut_off ? n : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    if (point.valid)
      out.append(text.substr(0, static_cast<size_t>(point.length)));
    else
      append_utf8(out, kReplacementCharacter);
    text.remove_prefix(static_cast<size_t>(point.length));
  }
  return out;
}

std::string unix_lines(std::string text) {
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[kept++] = text[i];
  }
  text.resize(kept);
  return text;
}

}  // namespace veery

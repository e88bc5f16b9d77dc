#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace veery {
namespace {

struct Range {
  char32_t first, last;
};
// Characters that control terminals or change how the surrounding text is displayed.
constexpr Range kUnsafe[] = {
    {0x00, 0x1F},      // C0
    {0x7F, 0x9F},      // DEL, C1
    {0x061C, 0x061C},  // Arabic letter mark
    {0x200E, 0x200F},  // direction marks
    {0x2028, 0x202E},  // line and paragraph separators, embeddings, overrides
    {0x2066, 0x2069},  // isolates
    {0xFEFF, 0xFEFF},  // byte order mark
};

bool is_unsafe(char32_t code) {
  return std::ranges::any_of(
      kUnsafe, [&](const Range& range) { return code >= range.first && code <= range.last; });
}

bool is_plain(char c) { return static_cast<unsigned char>(c) - 0x20U < 0x7FU - 0x20U; }

std::string escape(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  const auto number = static_cast<uint32_t>(code);
  return code < 0x100 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
}

std::string json_escape(char32_t code) {
  return fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
}

using Escape = std::string (*)(char32_t code);

/// Splits `text` into parts for `take`: runs of plain characters, which may be divided anywhere,
/// and single escaped characters. Characters in `kept` are not escaped. Stops when `take` returns
/// false.
template <typename Take>
void each_part(std::string_view text, std::string_view kept, Escape escape_of, const Take& take) {
  std::string replacement;
  append_utf8(replacement, kReplacementCharacter);
  while (!text.empty()) {
    const auto plain = static_cast<size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
    if (plain > 0) {
      if (!take(text.substr(0, plain), true)) return;
      text.remove_prefix(plain);
      continue;
    }
    const CodePoint point = next_code_point(text);
    const std::string_view bytes = text.substr(0, static_cast<size_t>(point.length));
    const bool stays = kept.find(bytes) != std::string_view::npos || !is_unsafe(point.value);
    if (!take(!point.valid ? replacement
              : stays      ? std::string(bytes)
                           : escape_of(point.value),
              false))
      return;
    text.remove_prefix(bytes.size());
  }
}

std::string whole(std::string_view text, std::string_view kept, Escape escape_of) {
  std::string out;
  out.reserve(text.size());
  each_part(text, kept, escape_of, [&](std::string_view part, bool) {
    out += part;
    return true;
  });
  return out;
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  constexpr std::string_view kCut = "...";
  const size_t room = most > kCut.size() ? most - kCut.size() : 0;
  std::string out;
  size_t end = 0;  // where to cut if the text becomes too long
  each_part(text, "", escape, [&](std::string_view part, bool divisible) {
    const size_t next = out.size() + part.size();
    if (next <= room)
      end = next;
    else if (divisible && end == out.size())
      end = room;
    out += part.substr(0, most + 1 - out.size());
    return out.size() <= most;
  });
  if (out.size() <= most) return out;
  out.resize(end);
  return out.append(kCut);
}

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_part(text, "", escape, [&](std::string_view part, bool plain) {
    for (const char c : part) out.append(plain && c == '\\' ? 2 : 1, c);
    return true;
  });
  return out;
}

std::string terminal_text(std::string_view text) { return whole(text, "\n\t", escape); }

std::string printable_json(std::string_view json) { return whole(json, "\n", json_escape); }

std::string some_of(std::span<const std::string> names, size_t shown) {
  std::string text;
  for (size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > shown)
    text +=
        fmt::format(" and {} other{}", names.size() - shown, names.size() > shown + 1 ? "s" : "");
  return text;
}

}  // namespace veery

#include "text/jinja/value/strings.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace veery::jinja {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

// Cost of a candidate position of a search, in units of Meter.
constexpr size_t kCandidate = 16;

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Returns the number of code points, processing words of eight bytes.
size_t count_starts(std::string_view text) {
  size_t followers = 0;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    // Continuation bytes: the highest bit is set and the next one is not.
    followers +=
        static_cast<size_t>(__builtin_popcountll(word & ~(word << 1) & 0x8080808080808080U));
  }
  for (; at < text.size(); ++at)
    followers += (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  return text.size() - followers;
}

// Collects parts of a text. Each part is charged; throws early if the parts would exceed the memory
// limit.
class Parts {
 public:
  void push_back(std::string_view part) {
    spend_steps(2);
    parts_.push_back(part);
    if (parts_.size() == checked_) {
      checked_ *= 2;
      expect_memory(checked_ * sizeof(part));
    }
  }
  size_t size() const { return parts_.size(); }
  Views take(bool reversed = false) {
    if (reversed) std::ranges::reverse(parts_);
    return std::move(parts_);
  }

 private:
  Views parts_;
  size_t checked_ = 1024;
};

// Returns the last code point of a non-empty text, with its length.
CodePoint last_code_point(std::string_view text) {
  size_t n = 1;
  while (n < 4 && n < text.size() &&
         (static_cast<unsigned char>(text[text.size() - n]) & 0xC0U) == 0x80U)
    ++n;
  CodePoint point = next_code_point(text.substr(text.size() - n));
  if (static_cast<size_t>(point.length) != n) point = {kReplacementCharacter, 1, false};
  return point;
}

bool to_strip(const CodePoint& point, std::string_view piece,
              const std::optional<std::string_view>& chars) {
  if (!chars) return is_space(point.value);
  return find_text(*chars, piece) != kNowhere;
}

bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

Views split_spaces(std::string_view text, int64_t limit) {
  Parts parts;
  text = strip_left(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text);  // Python keeps trailing whitespace here
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint point = next_code_point(text.substr(end));
      if (is_space(point.value)) break;
      end += static_cast<size_t>(point.length);
    }
    spend_text(end);
    parts.push_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return parts.take();
}

Views split_spaces_right(std::string_view text, int64_t limit) {
  Parts parts;
  text = strip_right(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const CodePoint point = last_code_point(text.substr(0, begin));
      if (is_space(point.value)) break;
      begin -= static_cast<size_t>(point.length);
    }
    spend_text(text.size() - begin);
    parts.push_back(text.substr(begin));
    text = strip_right(text.substr(0, begin));
  }
  return parts.take(true);
}

// Removes the text from each `open` to the next `close`. A removal may join text to form another
// `open`, which is then removed as well.
std::string without_marked(std::string text, std::string_view open, std::string_view close) {
  expect_memory(text.size());
  spend_copy(text.size());
  std::string out;
  size_t from = 0;
  for (size_t at = 0; (at = find_text(text, open, from)) != kNowhere;) {
    const size_t end = find_text(text, close, at);
    if (end == kNowhere) break;
    out.append(text, from, at - from);
    from = end + close.size();
    // Searches the end of the kept text again, together with the following text.
    const size_t again = std::min(out.size(), open.size() - 1);
    from -= again;
    out.copy(text.data() + from, again, out.size() - again);
    out.resize(out.size() - again);
  }
  return out.append(text, from);
}

}  // namespace

std::string_view strip_left(std::string_view text, std::optional<std::string_view> chars) {
  const size_t size = text.size();
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    const auto n = static_cast<size_t>(point.length);
    if (!to_strip(point, text.substr(0, n), chars)) break;
    text.remove_prefix(n);
  }
  spend_text(size - text.size());
  return text;
}

std::string_view strip_right(std::string_view text, std::optional<std::string_view> chars) {
  const size_t size = text.size();
  while (!text.empty()) {
    const CodePoint point = last_code_point(text);
    const auto n = static_cast<size_t>(point.length);
    if (!to_strip(point, text.substr(text.size() - n), chars)) break;
    text.remove_suffix(n);
  }
  spend_text(size - text.size());
  return text;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars) {
  return strip_right(strip_left(text, chars), chars);
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return kNowhere;
  if (part.empty()) return from;
  Meter meter;
  while (text.size() - from >= part.size()) {
    const size_t room = text.size() - from - part.size() + 1;
    const void* found = std::memchr(text.data() + from, part[0], room);
    if (found == nullptr) {
      meter.add(room);
      break;
    }
    const auto at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    const size_t same = common_prefix(text.substr(at), part);
    meter.add(at - from + kCandidate + 2 * same);
    if (same == part.size()) return at;
    from = at + 1;
  }
  return kNowhere;
}

size_t find_last_text(std::string_view text, std::string_view part) {
  if (part.size() > text.size()) return kNowhere;
  if (part.empty()) return text.size();
  Meter meter;
  for (size_t end = text.size() - part.size() + 1; end > 0;) {
    const size_t at = text.substr(0, end).rfind(part[0]);
    if (at == kNowhere) {
      meter.add(2 * end);
      break;
    }
    const size_t same = common_prefix(text.substr(at), part);
    meter.add(2 * (end - at) + kCandidate + 2 * same);
    if (same == part.size()) return at;
    end = at;
  }
  return kNowhere;
}

std::string shown(std::string_view text) {
  constexpr size_t kMost = 200;
  if (text.size() <= kMost) return std::string(text);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

size_t byte_offset(std::string_view text, size_t index) {
  constexpr size_t kBlock = 4096;
  Meter meter;
  size_t at = 0;
  for (; at + kBlock <= text.size(); at += kBlock) {
    const size_t count = count_starts(text.substr(at, kBlock));
    meter.add(kBlock);
    if (count > index) break;
    index -= count;
  }
  const size_t begin = at;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    if (index-- == 0) break;
  }
  meter.add(2 * (at - begin));
  return at;
}

size_t count_code_points(std::string_view text) {
  spend_copy(text.size());
  return count_starts(text);
}

Views split(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  if (!separator) return split_spaces(text, limit);
  if (separator->empty()) fail("empty separator");
  Parts parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = find_text(text, *separator);
    if (at == kNowhere) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  parts.push_back(text);
  return parts.take();
}

Views split_right(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  if (!separator) return split_spaces_right(text, limit);
  if (separator->empty()) fail("empty separator");
  Parts parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = find_last_text(text, *separator);
    if (at == kNowhere) break;
    parts.push_back(text.substr(at + separator->size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  return parts.take(true);
}

Views split_lines(std::string_view text, bool keep_ends) {
  spend_text(text.size());
  Parts lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = next_code_point(text.substr(at));
    const size_t end = at;
    at += static_cast<size_t>(point.length);
    if (!ends_line(point.value)) continue;
    if (point.value == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines.take();
}

std::string replace(std::string_view text, std::string_view old, std::string_view by,
                    int64_t count) {
  Builder out;
  if (old.empty()) {  // matches before each code point and at the end
    for (; count != 0; --count) {
      out.append(by);
      if (text.empty()) return out.take();
      const auto n = static_cast<size_t>(next_code_point(text).length);
      out.append(text.substr(0, n));
      text.remove_prefix(n);
      spend_steps(1);
    }
  }
  for (; count != 0; --count) {
    const size_t at = find_text(text, old);
    if (at == kNowhere) break;
    out.append(text.substr(0, at));
    out.append(by);
    text.remove_prefix(at + old.size());
  }
  out.append(text);
  return out.take();
}

std::string expand_tabs(std::string_view text, size_t width) {
  Builder out;
  size_t column = 0;
  spend_text(text.size());
  for (const char c : text) {
    if (c == '\t') {
      const size_t spaces = width == 0 ? 0 : width - column % width;
      out.append(spaces, ' ');
      column += spaces;
      continue;
    }
    out.append(c);
    if (c == '\n' || c == '\r')
      column = 0;
    else
      column += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }
  return out.take();
}

size_t count_occurrences(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  size_t count = 0;
  for (size_t at = find_text(text, part); at != kNowhere;
       at = find_text(text, part, at + part.size()))
    ++count;
  return count;
}

std::string escape_html(std::string_view text) {
  Builder out;
  spend_text(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out.append("&amp;"); break;
      case '<': out.append("&lt;"); break;
      case '>': out.append("&gt;"); break;
      case '\'': out.append("&#39;"); break;
      case '"': out.append("&#34;"); break;
      default: out.append(c);
    }
  }
  return out.take();
}

std::string strip_tags(std::string_view markup) {
  std::string text = without_marked(std::string(markup), "<!--", "-->");
  text = without_marked(std::move(text), "<", ">");
  std::string out;
  for (const std::string_view word : split(text, {}, -1)) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},   {"&gt;", ">"},    {"&#39;", "'"},
      {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) out = replace(out, entity, character);
  return out;
}

void append_hex(Builder& out, uint32_t value, int digits) {
  while (digits < 8 && value >> (4 * digits) != 0) ++digits;
  while (digits-- > 0) out.append("0123456789abcdef"[value >> (4 * digits) & 0xF]);
}

std::string quote_url(std::string_view text, bool for_query) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  Builder out;
  spend_text(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '_' || c == '.' ||
                       c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain)
      out.append(c);
    else if (c == ' ' && for_query)
      out.append('+');
    else
      for (const char digit : {'%', kHex[byte >> 4], kHex[byte & 0xF]}) out.append(digit);
  }
  return out.take();
}

}  // namespace veery::jinja

#include "text/jinja/strings.h"

#include <algorithm>

#include "base/utf8.h"

namespace veery::jinja {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

// The last code point of `text`, which is not empty, and its length.
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
  spend_copy(chars->size());
  return chars->find(piece) != kNowhere;
}

bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

Views split_spaces(std::string_view text, int64_t limit) {
  Views parts;
  text = strip_left(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text);  // Python keeps the white space at its end
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint point = next_code_point(text.substr(end));
      if (is_space(point.value)) break;
      end += static_cast<size_t>(point.length);
    }
    parts.push_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return parts;
}

Views split_spaces_right(std::string_view text, int64_t limit) {
  Views parts;
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
    parts.push_back(text.substr(begin));
    text = strip_right(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
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

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    if (index-- == 0) break;
  }
  spend_copy(at);
  return at;
}

size_t count_code_points(std::string_view text) {
  spend_copy(text.size());
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

Views split(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  spend_text(text.size());
  if (!separator) return split_spaces(text, limit);
  if (separator->empty()) fail("empty separator");
  Views parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = text.find(*separator);
    if (at == kNowhere) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  parts.push_back(text);
  return parts;
}

Views split_right(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  spend_text(text.size());
  if (!separator) return split_spaces_right(text, limit);
  if (separator->empty()) fail("empty separator");
  Views parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    if (text.size() < separator->size()) break;
    const size_t at = text.rfind(*separator);
    if (at == kNowhere) break;
    parts.push_back(text.substr(at + separator->size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

Views split_lines(std::string_view text, bool keep_ends) {
  spend_text(text.size());
  Views lines;
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
  return lines;
}

std::string replace(std::string_view text, std::string_view old, std::string_view by,
                    int64_t count) {
  spend_copy(text.size());
  Builder out;
  if (old.empty()) {  // stands before each code point and at the end
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
    const size_t at = text.find(old);
    if (at == kNowhere) break;
    out.append(text.substr(0, at));
    out.append(by);
    text.remove_prefix(at + old.size());
    spend_steps(1);
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
  spend_copy(text.size());
  if (part.empty()) return count_code_points(text) + 1;
  size_t count = 0;
  for (size_t at = text.find(part); at != kNowhere; at = text.find(part, at + part.size())) {
    ++count;
    spend_steps(1);
  }
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
  spend_text(markup.size());
  std::string text(markup);
  for (size_t at = text.find("<!--"); at != kNowhere; at = text.find("<!--")) {
    const size_t end = text.find("-->", at);
    if (end == kNowhere) break;
    spend_copy(text.size());
    text.erase(at, end + 3 - at);
  }
  for (size_t at = text.find('<'); at != kNowhere; at = text.find('<')) {
    const size_t end = text.find('>', at);
    if (end == kNowhere) break;
    spend_copy(text.size());
    text.erase(at, end + 1 - at);
  }
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

std::string quote_url(std::string_view text, bool for_query) {
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
      out.append(fmt::format("%{:02X}", byte));
  }
  return out.take();
}

}  // namespace veery::jinja

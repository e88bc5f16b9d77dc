#include "cli/editor/layout.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace veery::cli {
namespace {

constexpr int kTabStop = 8;

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

int width_of_point(char32_t c) { return utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)); }

/// Returns C0 controls as ^X and C1 controls as their code point, <9b>.
std::string visible_control(char32_t c) {
  if (c < 0x20 || c == 0x7f) return {'^', static_cast<char>(c ^ 0x40U)};
  constexpr const char* kDigits = "0123456789abcdef";
  return {'<', kDigits[c >> 4], kDigits[c & 15U], '>'};
}

/// Returns the columns of the character at `at` in column `column`.
int width_at(std::string_view text, size_t at, int column) {
  if (is_plain(text[at]) && (at + 1 == text.size() || is_plain(text[at + 1]))) return 1;
  return cell_at(text, at, column).width;
}

}  // namespace

size_t character_end(std::string_view text, size_t at) {
  // Two ASCII characters never form a cluster, except \r\n, which is_plain() excludes.
  if (is_plain(text[at]) && (at + 1 == text.size() || is_plain(text[at + 1]))) return at + 1;
  const CodePoint first = next_code_point(text.substr(at));
  auto last = static_cast<utf8proc_int32_t>(first.value);
  utf8proc_int32_t state = 0;
  at += static_cast<size_t>(first.length);
  while (at < text.size()) {
    const CodePoint point = next_code_point(text.substr(at));
    const auto value = static_cast<utf8proc_int32_t>(point.value);
    if (utf8proc_grapheme_break_stateful(last, value, &state)) break;
    last = value;
    at += static_cast<size_t>(point.length);
  }
  return at;
}

size_t character_begin(std::string_view text, size_t at) {
  if (at == 1 || (is_plain(text[at - 1]) && is_plain(text[at - 2]))) return at - 1;
  const size_t line = text.substr(0, at - 1).rfind('\n');
  size_t begin = line == std::string_view::npos ? 0 : line + 1;
  for (;;) {
    const size_t end = character_end(text, begin);
    if (end >= at) return begin;
    begin = end;
  }
}

Cell cell_at(std::string_view text, size_t at, int column) {
  const CodePoint first = next_code_point(text.substr(at));
  if (first.value == '\t') {
    const int width = kTabStop - column % kTabStop;
    return {std::string(static_cast<size_t>(width), ' '), width};
  }
  if (is_control(first.value)) {
    std::string shown = visible_control(first.value);
    const auto width = static_cast<int>(shown.size());
    return {std::move(shown), width};
  }
  Cell cell{std::string(text.substr(at, character_end(text, at) - at))};
  for (std::string_view rest = cell.shown; !rest.empty();) {
    const CodePoint point = next_code_point(rest);
    cell.width += width_of_point(point.value);
    rest.remove_prefix(static_cast<size_t>(point.length));
  }
  return cell;
}

int width_of(const CellRow& row) {
  int width = 0;
  for (const Cell& cell : row) width += cell.width;
  return width;
}

Layout::Layout(std::string_view text, int prompt_width, int columns) : text_(text) {
  Row row{0, 0, prompt_width, false};
  int column = prompt_width;
  const auto end_row = [&](size_t end, size_t next, bool wrapped) {
    row.end = end;
    rows_.push_back(row);
    row = {next, next, kIndent, wrapped};
    column = kIndent;
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      end_row(at, at + 1, false);
      ++at;
      continue;
    }
    int width = width_at(text, at, column);
    if (column + width > columns && at > row.begin) {
      end_row(at, at, true);
      width = width_at(text, at, column);
    }
    column += width;
    at = character_end(text, at);
  }
  end_row(text.size(), text.size(), false);
}

Place Layout::place(size_t at) const {
  // The last row that begins at or before the byte: at a wrap, the next row.
  const auto after = std::upper_bound(rows_.begin(), rows_.end(), at,
                                      [](size_t byte, const Row& row) { return byte < row.begin; });
  const Row& row = *(after - 1);
  int column = row.indent;
  for (size_t i = row.begin; i < std::min(at, row.end); i = character_end(text_, i))
    column += width_at(text_, i, column);
  return {static_cast<size_t>(after - rows_.begin()) - 1, column};
}

size_t Layout::byte_at(Place place) const {
  const Row& row = rows_[place.row];
  int column = row.indent;
  for (size_t at = row.begin; at < row.end;) {
    column += width_at(text_, at, column);
    if (column > place.column) return at;
    const size_t next = character_end(text_, at);
    const bool last_of_wrapped =
        next == row.end && place.row + 1 < rows_.size() && rows_[place.row + 1].wrapped;
    if (last_of_wrapped) return at;  // the end of a wrapped row is the begin of the next
    at = next;
  }
  return row.end;
}

CellRow Layout::cells(size_t row) const {
  CellRow cells;
  int column = rows_[row].indent;
  for (size_t at = rows_[row].begin; at < rows_[row].end; at = character_end(text_, at)) {
    cells.push_back(cell_at(text_, at, column));
    column += cells.back().width;
  }
  return cells;
}

}  // namespace veery::cli

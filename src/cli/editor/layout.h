// layout.h: where the characters of a text stand on a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// What people take for one character, a grapheme cluster of Unicode (UAX #29), as it is written on
/// a terminal: controls as ^X, tabs as spaces.
struct Cell {
  std::string shown;
  int width = 0;  ///< columns: 2 for wide characters, as terminals count that go by code points
  bool operator==(const Cell&) const = default;
};
using CellRow = std::vector<Cell>;

/// End of the character that begins at `at` < text.size().
size_t character_end(std::string_view text, size_t at);
/// Begin of the character that ends at `at` > 0.
size_t character_begin(std::string_view text, size_t at);
/// The character at `at`, which is not \n, in column `column`.
Cell cell_at(std::string_view text, size_t at, int column);
int width_of(const CellRow& row);

/// Where a character stands, counted from 0.
struct Place {
  size_t row = 0;
  int column = 0;
};

/// A text broken into rows: behind each \n, and where a row is full. Rows are indented: the first
/// by the prompt, others by kIndent.
class Layout {
 public:
  static constexpr int kIndent = 2;
  struct Row {
    size_t begin, end;  ///< bytes of the text, without its \n
    int indent;
    bool wrapped;  ///< begins in the middle of a line
  };

  /// `text` must outlive it. `columns`: most that a row takes.
  Layout(std::string_view text, int prompt_width, int columns);

  const std::vector<Row>& rows() const { return rows_; }
  /// Of the character that begins at byte `at`.
  Place place(size_t at) const;
  /// The byte at which the character at, or left of, a place begins; the end of the row behind it.
  size_t byte_at(Place place) const;
  /// What is written in a row, without its indent.
  CellRow cells(size_t row) const;

 private:
  std::string_view text_;
  std::vector<Row> rows_;
};

}  // namespace veery::cli

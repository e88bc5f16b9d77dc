// layout.h: lays out a text in rows and columns of a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// A grapheme cluster of Unicode (UAX #29) as it is shown on a terminal: controls as ^X, tabs as
/// spaces.
struct Cell {
  std::string shown;
  int width = 0;  ///< columns: the sum over its code points, as most terminals count; wide: 2
  bool operator==(const Cell&) const = default;
};
using CellRow = std::vector<Cell>;

/// Returns the end of the character that begins at `at` < text.size().
size_t character_end(std::string_view text, size_t at);
/// Returns the begin of the character that ends at `at` > 0.
size_t character_begin(std::string_view text, size_t at);
/// Returns the character at `at`, which must not be \n, for column `column` (tabs depend on it).
Cell cell_at(std::string_view text, size_t at, int column);
int width_of(const CellRow& row);

/// The position of a character, from 0.
struct Place {
  size_t row = 0;
  int column = 0;
};

/// A text broken into rows: after each \n and when a row is full. The first row is indented by the
/// prompt, the others by kIndent.
class Layout {
 public:
  static constexpr int kIndent = 2;
  struct Row {
    size_t begin, end;  ///< bytes of the text, without \n
    int indent;
    bool wrapped;  ///< begins in the middle of a line
  };

  /// `text` must outlive the layout. `columns`: maximum width of a row.
  Layout(std::string_view text, int prompt_width, int columns);

  const std::vector<Row>& rows() const { return rows_; }
  /// Returns the place of the character that begins at byte `at`.
  Place place(size_t at) const;
  /// Returns the byte at which the character that covers `place` begins; the end of the row if the
  /// place is after its last character.
  size_t byte_at(Place place) const;
  /// Returns the cells of a row, without its indent.
  CellRow cells(size_t row) const;

 private:
  std::string_view text_;
  std::vector<Row> rows_;
};

}  // namespace veery::cli

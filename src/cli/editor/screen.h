// screen.h: draws rows of a terminal and updates them in place.
#pragma once
#include <string>
#include <vector>

#include "cli/editor/layout.h"
#include "cli/editor/terminal.h"

namespace veery::cli {

/// Writes only what has changed. The rows begin in the first column of the row in which the cursor
/// was at the first show().
class Screen {
 public:
  explicit Screen(Terminal& terminal) : terminal_(terminal) {}

  /// `rows`: at most as many as the terminal has, each narrower than the terminal, because
  /// terminals differ in where the cursor is after a full row.
  void show(std::vector<CellRow> rows, Place cursor);
  /// Keeps the rows, writes `note` at their end and moves the cursor to the line below them.
  void leave(std::string_view note = {});
  /// Makes the next show() start at the present cursor.
  void forget();
  /// After a change of the width: erases the rows, so that the next show() takes their place.
  void rewrap();
  void clear_all();

 private:
  void move_to(Place place);
  void show_row(size_t index, const CellRow& row);

  Terminal& terminal_;
  std::vector<CellRow> shown_;
  Place cursor_;
  std::string out_;
};

}  // namespace veery::cli

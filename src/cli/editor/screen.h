// screen.h: rows at the cursor of a terminal that are changed in place.
#pragma once
#include <string>
#include <vector>

#include "cli/editor/layout.h"
#include "cli/editor/terminal.h"

namespace veery::cli {

/// Only what has changed is written. The rows begin in the row in which the cursor stood, in its
/// first column, when they were shown first.
class Screen {
 public:
  explicit Screen(Terminal& terminal) : terminal_(terminal) {}

  /// `rows`: at most as many as the terminal has, each narrower than it (terminals differ in what a
  /// full row does to the cursor).
  void show(std::vector<CellRow> rows, Place cursor);
  /// The rows stay; the cursor goes to the first column below them, behind `note` at their end.
  void leave(std::string_view note = {});
  /// What is shown next is shown where the cursor is.
  void forget();
  /// The terminal's width has changed: what is shown next takes the place of the rows.
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

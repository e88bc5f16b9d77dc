#include "cli/editor/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace veery::cli {

// Control sequences as in ECMA-48.

void Screen::move_to(Place place) {
  const auto out = std::back_inserter(out_);
  if (place.row < cursor_.row) fmt::format_to(out, "\x1b[{}A", cursor_.row - place.row);
  if (place.row > cursor_.row) fmt::format_to(out, "\x1b[{}B", place.row - cursor_.row);
  if (place.column != cursor_.column) {
    if (place.column == 0)
      out_ += '\r';
    else
      fmt::format_to(out, "\x1b[{}G", place.column + 1);
  }
  cursor_ = place;
}

void Screen::show_row(size_t index, const CellRow& row) {
  if (index == shown_.size()) {
    if (index > 0) {
      move_to({index - 1, cursor_.column});
      out_ += "\r\n";  // scrolls at the bottom of the screen
      cursor_ = {index, 0};
    }
    shown_.emplace_back();
  }
  const CellRow& before = shown_[index];
  const auto [old_cell, new_cell] =
      std::mismatch(before.begin(), before.end(), row.begin(), row.end());
  if (old_cell == before.end() && new_cell == row.end()) return;
  const CellRow same(row.begin(), new_cell);
  move_to({index, width_of(same)});
  if (old_cell != before.end()) out_ += "\x1b[K";
  for (auto cell = new_cell; cell != row.end(); ++cell) {
    out_ += cell->shown;
    cursor_.column += cell->width;
  }
  shown_[index] = row;
}

void Screen::show(std::vector<CellRow> rows, Place cursor) {
  for (size_t i = 0; i < rows.size(); ++i) show_row(i, rows[i]);
  if (rows.size() < shown_.size()) {
    move_to({rows.size(), 0});
    out_ += "\x1b[J";
    shown_.resize(rows.size());
  }
  move_to(cursor);
  terminal_.write(out_);
  out_.clear();
}

void Screen::leave(std::string_view note) {
  if (!shown_.empty()) move_to({shown_.size() - 1, width_of(shown_.back())});
  out_ += note;
  out_ += "\r\n";
  terminal_.write(out_);
  forget();
}

void Screen::forget() {
  shown_.clear();
  cursor_ = {};
  out_.clear();
}

// Most terminals wrap rows again when they become narrower, so a row may now take several.
void Screen::rewrap() {
  const int columns = terminal_.size().columns;
  int above = cursor_.column / columns;
  for (size_t i = 0; i < cursor_.row; ++i)
    above += std::max(width_of(shown_[i]) - 1, 0) / columns + 1;
  out_ += '\r';
  if (above > 0) fmt::format_to(std::back_inserter(out_), "\x1b[{}A", above);
  out_ += "\x1b[J";
  terminal_.write(out_);
  forget();
}

void Screen::clear_all() {
  terminal_.write("\x1b[H\x1b[2J");
  forget();
}

}  // namespace veery::cli

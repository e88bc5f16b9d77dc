#include "cli/editor/line_editor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/editor/entry.h"
#include "cli/editor/layout.h"

namespace veery::cli {
namespace {

// Bytes above ASCII count as letters, as most of them are.
bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

}  // namespace

void LineEditor::begin() {
  if (!text_.empty()) killed_ = text_;  // Ctrl-Y restores an entry that Ctrl-C cleared
  text_.clear();
  cursor_ = 0;
  top_ = 0;
  entry_ = history_.entries().size();
  edited_.clear();
  search_.reset();
}

void LineEditor::resumed() {
  screen_.forget();
  terminal_.write("\r");
}

void LineEditor::end_line(std::string_view note) {
  search_.reset();
  cursor_ = text_.size();
  refresh();
  screen_.leave(note);
}

Editor::Outcome LineEditor::handle(const Key& key) {
  if (search_ && search(key)) return Outcome::kGoOn;
  const bool pasted = std::exchange(pasted_, key.kind == KeyKind::kPaste);
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste: insert(key.text); break;
    case KeyKind::kNewLine: insert("\n"); break;
    case KeyKind::kEnter:
      if (pasted && text_.ends_with('\\')) return Outcome::kEntered;
      return enter();
    case KeyKind::kTab: complete(); break;
    case KeyKind::kUp: move_up(); break;
    case KeyKind::kDown: move_down(); break;
    case KeyKind::kClearScreen: screen_.clear_all(); break;
    case KeyKind::kSearchOlder:
    case KeyKind::kSearchNewer:
      edited_[entry_] = text_;
      search_ = Search{{}, entry_, false, text_, cursor_, entry_};
      break;
    default: move(key.kind); change(key.kind);
  }
  return Outcome::kGoOn;
}

Editor::Outcome LineEditor::enter() {
  if (cursor_ < text_.size() || !goes_on(text_)) return Outcome::kEntered;
  cursor_ = text_.size();
  return Outcome::kGoOn;
}

void LineEditor::move(KeyKind kind) {
  switch (kind) {
    case KeyKind::kLeft:
      if (cursor_ > 0) cursor_ = character_begin(text_, cursor_);
      break;
    case KeyKind::kRight:
      if (cursor_ < text_.size()) cursor_ = character_end(text_, cursor_);
      break;
    case KeyKind::kWordLeft: cursor_ = word_left(); break;
    case KeyKind::kWordRight: cursor_ = word_right(); break;
    case KeyKind::kLineBegin: cursor_ = line_begin(); break;
    case KeyKind::kLineEnd: cursor_ = line_end(); break;
    default: break;
  }
}

void LineEditor::change(KeyKind kind) {
  switch (kind) {
    case KeyKind::kBackspace:
      if (cursor_ > 0) remove(character_begin(text_, cursor_), cursor_);
      break;
    case KeyKind::kDelete:
    case KeyKind::kEndOrDelete:
      if (cursor_ < text_.size()) remove(cursor_, character_end(text_, cursor_));
      break;
    // At the end or begin of a line these remove its line break.
    case KeyKind::kKillToEnd:
      kill(cursor_, line_end() > cursor_ ? line_end() : std::min(cursor_ + 1, text_.size()));
      break;
    case KeyKind::kKillToBegin:
      kill(line_begin() < cursor_ ? line_begin() : std::max<size_t>(cursor_, 1) - 1, cursor_);
      break;
    case KeyKind::kKillWordLeft: {
      size_t begin = cursor_;
      while (begin > 0 && is_space(text_[begin - 1])) --begin;
      while (begin > 0 && !is_space(text_[begin - 1])) --begin;
      kill(begin, cursor_);
      break;
    }
    case KeyKind::kKillWordRight: kill(cursor_, word_right()); break;
    case KeyKind::kYank: insert(killed_); break;
    default: break;
  }
}

void LineEditor::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::remove(size_t begin, size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void LineEditor::kill(size_t begin, size_t end) {
  if (begin == end) return;
  killed_ = text_.substr(begin, end - begin);
  remove(begin, end);
}

size_t LineEditor::line_begin() const {
  return cursor_ == 0 ? 0 : text_.rfind('\n', cursor_ - 1) + 1;
}

size_t LineEditor::line_end() const { return std::min(text_.find('\n', cursor_), text_.size()); }

size_t LineEditor::word_left() const {
  size_t at = cursor_;
  while (at > 0 && !is_word(text_[at - 1])) --at;
  while (at > 0 && is_word(text_[at - 1])) --at;
  return at;
}

size_t LineEditor::word_right() const {
  size_t at = cursor_;
  while (at < text_.size() && !is_word(text_[at])) ++at;
  while (at < text_.size() && is_word(text_[at])) ++at;
  return at;
}

void LineEditor::move_up() {
  const Layout layout(text_, Layout::kIndent, columns());
  const Place place = layout.place(cursor_);
  if (place.row > 0)
    cursor_ = layout.byte_at({place.row - 1, place.column});
  else if (entry_ > 0)
    show_entry(entry_ - 1);
}

void LineEditor::move_down() {
  const Layout layout(text_, Layout::kIndent, columns());
  const Place place = layout.place(cursor_);
  if (place.row + 1 < layout.rows().size())
    cursor_ = layout.byte_at({place.row + 1, place.column});
  else if (entry_ < history_.entries().size())
    show_entry(entry_ + 1);
}

void LineEditor::show_entry(size_t index) {
  edited_[entry_] = text_;
  entry_ = index;
  const auto edited = edited_.find(index);
  text_ = edited != edited_.end() ? edited->second : history_.entries()[index];
  cursor_ = text_.size();
}

void LineEditor::complete() {
  if (!is_command(text_) || cursor_ < text_.size()) {
    insert("\t");
    return;
  }
  const Completion found = completer_(text_);
  if (found.words.empty()) return;
  std::string common = found.words[0];
  for (const std::string& word : found.words)
    common.erase(std::mismatch(common.begin(), common.end(), word.begin(), word.end()).first,
                 common.end());
  if (found.words.size() > 1 && common == text_.substr(found.begin)) {
    list(found.words);
  } else {
    text_.replace(found.begin, std::string::npos, common);
    cursor_ = text_.size();
  }
}

void LineEditor::list(const std::vector<std::string>& words) {
  refresh();
  screen_.leave();
  terminal_.write(fmt::format("{}\r\n", fmt::join(words, "  ")));
}

bool LineEditor::search(const Key& key) {
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste:
      search_->query += key.text;
      find(true, false);
      return true;
    case KeyKind::kBackspace:
      if (!search_->query.empty())
        search_->query.erase(character_begin(search_->query, search_->query.size()));
      search_->entry = history_.entries().size();
      find(true, false);
      return true;
    case KeyKind::kSearchOlder: find(true, true); return true;
    case KeyKind::kSearchNewer: find(false, true); return true;
    case KeyKind::kCancel:
      text_ = search_->text_before;
      cursor_ = search_->cursor_before;
      entry_ = search_->entry_before;
      search_.reset();
      return true;
    default: search_.reset(); return false;
  }
}

void LineEditor::find(bool older, bool from_next) {
  const auto& entries = history_.entries();
  search_->failed = false;
  if (search_->query.empty()) return;
  size_t at = std::min(search_->entry, entries.size());
  if (!from_next && at < entries.size()) ++at;  // the present entry may still match
  for (;;) {
    if (older ? at == 0 : at + 1 >= entries.size()) break;
    at = older ? at - 1 : at + 1;
    const size_t found = entries[at].find(search_->query);
    if (found == std::string::npos) continue;
    search_->entry = entry_ = at;
    text_ = entries[at];
    cursor_ = found;
    return;
  }
  search_->failed = true;
}

int LineEditor::columns() const { return std::max(terminal_.size().columns - 1, 8); }

Cell LineEditor::prompt() const {
  std::string text = "> ";
  if (search_)
    text = fmt::format("({}: {}) ", search_->failed ? "not found" : "search", search_->query);
  if (search_) {  // truncated to half of the row
    Cell cell;
    for (size_t at = 0; at < text.size() && cell.width < columns() / 2;
         at = character_end(text, at)) {
      const Cell next = text[at] == '\n' ? Cell{" ", 1} : cell_at(text, at, cell.width);
      cell.shown += next.shown;
      cell.width += next.width;
    }
    return cell;
  }
  if (terminal_.shows_styles()) text = "\x1b[32m" + text + "\x1b[0m";
  return {text, 2};
}

void LineEditor::refresh() {
  const Cell first = prompt();
  const Layout layout(text_, first.width, columns());
  Place cursor = layout.place(cursor_);
  auto rows = visible_rows(layout, cursor);
  screen_.show(std::move(rows), cursor);
}

// If not all rows fit the screen, its first and last row say how many are hidden.
std::vector<CellRow> LineEditor::visible_rows(const Layout& layout, Place& cursor) {
  const bool styled = terminal_.shows_styles();
  const auto dim = [&](std::string text) {
    return styled ? "\x1b[2m" + std::move(text) + "\x1b[0m" : std::move(text);
  };
  const size_t all = layout.rows().size();
  const size_t height = std::min(static_cast<size_t>(terminal_.size().rows), all);
  const size_t margin = height < all && height >= 3 ? 1 : 0;
  if (cursor.row + margin + 1 > top_ + height) top_ = cursor.row + margin + 1 - height;
  if (cursor.row < top_ + margin) top_ = cursor.row - std::min(cursor.row, margin);
  top_ = std::min(top_, all - height);
  std::vector<CellRow> rows;
  for (size_t i = top_; i < top_ + height; ++i) {
    const size_t above = i == top_ ? top_ : 0;
    const size_t below = i + 1 == top_ + height ? all - i - 1 : 0;
    if (margin > 0 && above + below > 0) {
      const size_t hidden = (above > 0 ? above : below) + 1;
      std::string note = fmt::format("... {} lines {}", hidden, above > 0 ? "above" : "below");
      const auto width = static_cast<int>(note.size());
      if (width <= columns()) {
        rows.push_back({{dim(std::move(note)), width}});
        continue;
      }
    }
    const Layout::Row& row = layout.rows()[i];
    CellRow cells = layout.cells(i);
    Cell lead = i == 0 ? prompt() : Cell{row.wrapped ? "  " : dim(". "), Layout::kIndent};
    cells.insert(cells.begin(), std::move(lead));
    rows.push_back(std::move(cells));
  }
  cursor.row -= top_;
  return rows;
}

}  // namespace veery::cli

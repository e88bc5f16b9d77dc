// line_editor.h: a full editor for terminals that can move the cursor, with Emacs and PC keys.
#pragma once
#include <map>
#include <utility>

#include "cli/editor/editor.h"
#include "cli/editor/screen.h"

namespace veery::cli {

class LineEditor : public Editor {
 public:
  LineEditor(Terminal& terminal, History& history, Completer completer)
      : Editor(terminal, history), completer_(std::move(completer)), screen_(terminal) {}

 private:
  struct Search {
    std::string query;
    size_t entry;  ///< index in the history; its size: none found yet
    bool failed = false;
    std::string text_before;
    size_t cursor_before, entry_before;
  };

  void begin() override;
  void refresh() override;
  Outcome handle(const Key& key) override;
  void resized() override { screen_.rewrap(); }
  void resumed() override;
  void end_line(std::string_view note) override;

  Outcome enter();
  void move(KeyKind kind);
  void change(KeyKind kind);
  void insert(std::string_view text);
  void remove(size_t begin, size_t end);
  void kill(size_t begin, size_t end);
  void complete();
  void list(const std::vector<std::string>& words);

  void move_up();
  void move_down();
  void show_entry(size_t index);
  size_t line_begin() const;
  size_t line_end() const;
  size_t word_left() const;
  size_t word_right() const;

  /// Handles a key during a search. Returns false if the key ends the search and is still to do.
  bool search(const Key& key);
  void find(bool older, bool from_next);

  int columns() const;
  Cell prompt() const;
  std::vector<CellRow> visible_rows(const class Layout& layout, Place& cursor);

  Completer completer_;
  Screen screen_;
  size_t cursor_ = 0;    ///< byte of text_
  size_t top_ = 0;       ///< first visible row
  bool pasted_ = false;  ///< the last key was a paste
  std::string killed_;
  size_t entry_ = 0;                      ///< index in the history; its size: a new entry
  std::map<size_t, std::string> edited_;  ///< changed texts of entries of the history
  std::optional<Search> search_;
};

}  // namespace veery::cli

// editor.h: reads an entry of a chat from the terminal: history, several lines, pastes.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/editor/history.h"
#include "cli/editor/keys.h"
#include "cli/editor/terminal.h"

namespace veery::cli {

/// Words that may replace an entry from byte `begin` to its end.
struct Completion {
  size_t begin = 0;
  std::vector<std::string> words = {};
};
/// Returns the completions of an entry. Each word begins with the text that it replaces.
using Completer = std::function<Completion(const std::string& entry)>;

/// Why not a library: libedit does not know bracketed pastes, loses combining marks and misplaces
/// the cursor in entries taller than the screen; readline is under the GPL.
class Editor {
 public:
  Editor(Terminal& terminal, History& history) : terminal_(terminal), history_(history) {}
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  virtual ~Editor() = default;

  /// Reads the next entry, with its line breaks, and adds it to the history. Returns nothing if the
  /// user leaves: Ctrl-D, or Ctrl-C twice on an empty line. `interrupted`: the first of them has
  /// already been pressed.
  std::optional<std::string> read(bool interrupted);

 protected:
  enum class Outcome { kGoOn, kEntered, kLeave };

  /// Starts an empty entry.
  virtual void begin() = 0;
  /// Draws the changes after keys have been handled.
  virtual void refresh() {}
  virtual Outcome handle(const Key& key) = 0;
  virtual void resized() {}
  virtual void resumed() {}
  /// Writes `note` at the end of the entry and moves the cursor to a new line.
  virtual void end_line(std::string_view note) = 0;

  Terminal& terminal_;
  History& history_;
  std::string text_;  ///< valid UTF-8

 private:
  Outcome handle_any(const Key& key);
  Outcome interrupt();
  Outcome suspend();
  void show_hint();

  KeyReader keys_;
  bool warned_ = false;
};

/// Returns a LineEditor if the terminal can move its cursor, else (TERM=dumb) a PlainEditor.
/// `completer`: for Tab. Terminal and history must outlive it.
std::unique_ptr<Editor> make_editor(Terminal& terminal, History& history, Completer completer);

}  // namespace veery::cli

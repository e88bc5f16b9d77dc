// editor.h: reads what is typed in a chat, with history, several lines and pastes as one entry.
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

/// Words that may replace the end of an entry, from the byte `begin` on.
struct Completion {
  size_t begin = 0;
  std::vector<std::string> words = {};
};
/// Completions of what is typed; the words begin with the end that they replace.
using Completer = std::function<Completion(const std::string& entry)>;

/// Debian's libraries do not suffice: libedit knows no marks of pastes, loses combining marks and
/// misplaces the cursor in what is taller than the screen; readline's licence is the GPL.
class Editor {
 public:
  Editor(Terminal& terminal, History& history) : terminal_(terminal), history_(history) {}
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  virtual ~Editor() = default;

  /// The next entry, which is in the history then, with its line breaks; none: the user leaves, by
  /// Ctrl-D, or by Ctrl-C twice with nothing typed. `interrupted`: Ctrl-C was pressed once already.
  std::optional<std::string> read(bool interrupted);

 protected:
  enum class Outcome { kGoOn, kEntered, kLeave };

  /// Shows a prompt with nothing behind it.
  virtual void begin() = 0;
  /// Keys have been handled: shows what has changed.
  virtual void refresh() {}
  virtual Outcome handle(const Key& key) = 0;
  virtual void resized() {}
  virtual void resumed() {}
  /// The cursor goes to a line of its own, behind `note` at the end of the entry.
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

/// One that draws where the terminal can, else (TERM=dumb) one that appends only. `completer`: of
/// commands, for Tab. Terminal and history must outlive it.
std::unique_ptr<Editor> make_editor(Terminal& terminal, History& history, Completer completer);

}  // namespace veery::cli

#include "cli/editor/editor.h"

#include <utility>

#include "cli/editor/line_editor.h"
#include "cli/editor/plain_editor.h"

namespace veery::cli {
namespace {

// Only the time after it distinguishes the key Escape from the beginning of a sequence: terminals
// send the rest at once, but networks may delay it.
constexpr int kSequenceMilliseconds = 200;

}  // namespace

std::optional<std::string> Editor::read(bool interrupted) {
  terminal_.begin_editing();
  text_.clear();
  warned_ = interrupted;
  if (warned_) show_hint();
  begin();
  Outcome outcome = Outcome::kGoOn;
  while (outcome == Outcome::kGoOn) {
    while (outcome == Outcome::kGoOn) {
      const auto key = keys_.next();
      if (!key) break;
      outcome = handle_any(*key);
    }
    if (outcome != Outcome::kGoOn) break;
    refresh();
    std::string bytes;
    switch (terminal_.wait(bytes, keys_.awaits_sequence() ? kSequenceMilliseconds : -1)) {
      case Terminal::Event::kBytes: keys_.push(bytes); break;
      case Terminal::Event::kInterrupt: outcome = interrupt(); break;
      case Terminal::Event::kTimeout: keys_.give_up_sequence(); break;
      case Terminal::Event::kResized: resized(); break;
      case Terminal::Event::kResumed: resumed(); break;
      case Terminal::Event::kEnd: outcome = Outcome::kLeave; break;
    }
  }
  end_line({});
  terminal_.unread(keys_.take_rest());
  terminal_.begin_answering();
  if (outcome == Outcome::kLeave) return std::nullopt;
  history_.add(text_);
  return text_;
}

Editor::Outcome Editor::handle_any(const Key& key) {
  if (key.kind == KeyKind::kInterrupt) return interrupt();
  warned_ = false;
  if (key.kind == KeyKind::kSuspend) return suspend();
  if (key.kind == KeyKind::kEndOrDelete && text_.empty()) return Outcome::kLeave;
  return handle(key);
}

Editor::Outcome Editor::interrupt() {
  if (text_.empty() && warned_) return Outcome::kLeave;
  end_line("^C");
  warned_ = text_.empty();
  if (warned_) show_hint();
  begin();
  return Outcome::kGoOn;
}

Editor::Outcome Editor::suspend() {
  end_line("^Z");
  terminal_.suspend();
  return Outcome::kGoOn;
}

void Editor::show_hint() { terminal_.write("Ctrl-C again exits, as do Ctrl-D and /exit.\r\n"); }

std::unique_ptr<Editor> make_editor(Terminal& terminal, History& history, Completer completer) {
  if (terminal.moves_cursor())
    return std::make_unique<LineEditor>(terminal, history, std::move(completer));
  return std::make_unique<PlainEditor>(terminal, history);
}

}  // namespace veery::cli

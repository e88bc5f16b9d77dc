// terminal.h: the terminal of a chat: sets and restores its modes, waits for input.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// Whether `descriptor` is a terminal that can move its cursor (not `TERM=dumb`).
bool moves_cursor(int descriptor);
/// Whether colours and styles may be written: as above, and NO_COLOR is unset or empty.
bool shows_styles(int descriptor);

struct TerminalSize {
  int rows, columns;
};

/// Reads standard input, which must be a terminal, byte by byte, so that lines may have any length
/// and none is lost during an answer. Draws on standard output or, if that is not a terminal, on
/// standard error. Ctrl-Z, SIGTERM, SIGHUP and the destructor restore the modes of the terminal. At
/// most one object may exist.
class Terminal {
 public:
  /// Throws kIo if the modes cannot be read.
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  /// Switches to editing: Ctrl-C is an ordinary byte.
  void begin_editing();
  /// Switches to answering: Ctrl-C is counted; the third one ends the program, in case nothing
  /// looks at the count.
  void begin_answering();
  /// During an answer: returns whether Ctrl-C was pressed. Keeps other input for wait(), except
  /// what came before Ctrl-C.
  bool interrupted();
  /// Returns the number of Ctrl-C since the last call, or since wait() returned one.
  int take_interrupts();

  bool moves_cursor() const { return moves_cursor_; }
  bool shows_styles() const { return shows_styles_; }
  /// Whether input should be echoed. It should not if echo was already off when veery started,
  /// because the program that runs veery then shows the input itself.
  bool echoes() const { return echoes_; }
  /// Returns 24 rows of 80 columns if the size is unknown.
  TerminalSize size() const;
  void write(std::string_view text) const;

  enum class Event { kBytes, kInterrupt, kResized, kResumed, kTimeout, kEnd };
  /// Waits at most `milliseconds` (-1: for ever) for an event. Appends input to `bytes` for kBytes.
  Event wait(std::string& bytes, int milliseconds);
  /// Returns bytes to the front of the input.
  void unread(std::string bytes) { ahead_.insert(0, bytes); }
  /// Does what Ctrl-Z does.
  void suspend();

 private:
  int output_;
  bool moves_cursor_, shows_styles_, echoes_;
  std::string ahead_;  // input that is read but not returned yet
};

}  // namespace veery::cli

// terminal.h: the terminal of a chat: its modes, which every way out restores, and waiting for what
// is typed.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// Whether a terminal is there that is not `TERM=dumb`: the cursor may be moved.
bool moves_cursor(int descriptor);
/// Whether colours and styles may be written there: as above, and NO_COLOR is unset or empty.
bool shows_styles(int descriptor);

struct TerminalSize {
  int rows, columns;
};

/// Reads standard input, which must be a terminal, byte by byte: lines of any length, none lost
/// while an answer is written. Drawn is on standard output, on standard error where that is none.
/// Ctrl-Z, SIGTERM, SIGHUP and the destructor give the terminal back as it was found. One at a
/// time.
class Terminal {
 public:
  /// Throws kIo.
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  /// Ctrl-C is a byte like others.
  void begin_editing();
  /// Ctrl-C is counted; the third one ends the program, for what does not look at the count.
  void begin_answering();
  /// While an answer is written: whether Ctrl-C was pressed. What is typed meanwhile is kept for
  /// wait(), but for what came before Ctrl-C.
  bool interrupted();
  /// How often it was pressed since it was last asked.
  int take_interrupts();

  bool moves_cursor() const { return moves_cursor_; }
  bool shows_styles() const { return shows_styles_; }
  /// Whether what is typed should be written back: not where a program that shows it itself has
  /// switched the echo off.
  bool echoes() const { return echoes_; }
  /// 24 rows of 80 columns where the system does not know.
  TerminalSize size() const;
  void write(std::string_view text) const;

  enum class Event { kBytes, kInterrupt, kResized, kResumed, kTimeout, kEnd };
  /// Waits, at most `milliseconds` (-1: for ever). kBytes: they are appended to `bytes`.
  Event wait(std::string& bytes, int milliseconds);
  /// Gives bytes back that wait() has appended.
  void unread(std::string bytes) { ahead_.insert(0, bytes); }
  /// What Ctrl-Z does.
  void suspend();

 private:
  int output_;
  bool moves_cursor_, shows_styles_, echoes_;
  std::string ahead_;  // read, but not handed out
};

}  // namespace veery::cli

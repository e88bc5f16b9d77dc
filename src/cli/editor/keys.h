// keys.h: from the bytes that a terminal sends to keys.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace veery::cli {

enum class KeyKind {
  kText,   ///< printable characters, as many as came
  kPaste,  ///< what stood between the marks of a bracketed paste
  kEnter,
  kNewLine,  ///< Enter with Alt, Shift or Ctrl
  kTab,
  kBackspace,
  kDelete,
  kLeft,
  kRight,
  kWordLeft,
  kWordRight,
  kUp,
  kDown,
  kLineBegin,
  kLineEnd,
  kKillToEnd,
  kKillToBegin,
  kKillWordLeft,
  kKillWordRight,
  kYank,
  kClearScreen,
  kSearchOlder,
  kSearchNewer,
  kInterrupt,    ///< Ctrl-C
  kEndOrDelete,  ///< Ctrl-D
  kSuspend,      ///< Ctrl-Z
  kCancel,       ///< Escape, Ctrl-G
  kOther,        ///< means nothing here
};

struct Key {
  KeyKind kind;
  std::string text;  ///< of kText and kPaste, valid UTF-8; lines of a paste end in \n
};

class KeyReader {
 public:
  void push(std::string_view bytes) { held_ += bytes; }
  /// None: the bytes at hand are used up, or begin something whose rest has to come.
  std::optional<Key> next();
  /// What is at hand may be all, the key Escape, or the beginning of a sequence.
  bool awaits_sequence() const { return !pasting_ && !held_.empty() && held_[0] == '\x1b'; }
  /// Bytes that no key was made of.
  std::string take_rest() { return std::exchange(held_, {}); }
  /// The rest has not come within a time in which terminals send it.
  void give_up_sequence();

 private:
  std::optional<Key> paste();
  std::optional<Key> text();
  std::optional<Key> sequence();
  std::optional<Key> control_sequence();
  Key taken(size_t count, KeyKind kind, std::string text = {});

  std::string held_;
  bool pasting_ = false;
  size_t searched_ = 0;  // of a paste: where its end is not
};

}  // namespace veery::cli

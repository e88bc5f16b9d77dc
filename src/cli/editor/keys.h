// keys.h: decodes the bytes that a terminal sends into keys.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace veery::cli {

enum class KeyKind {
  kText,   ///< one or more printable characters
  kPaste,  ///< the text of a bracketed paste
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
  kOther,        ///< without effect
};

struct Key {
  KeyKind kind;
  std::string text;  ///< for kText and kPaste: valid UTF-8; lines of a paste end in \n
};

class KeyReader {
 public:
  void push(std::string_view bytes) { held_ += bytes; }
  /// Returns the next key; nothing if all bytes are decoded or a key is incomplete.
  std::optional<Key> next();
  /// Whether the undecoded bytes may be the key Escape or the beginning of a sequence.
  bool awaits_sequence() const { return !pasting_ && !held_.empty() && held_[0] == '\x1b'; }
  /// Returns and removes the bytes that are not decoded yet.
  std::string take_rest() { return std::exchange(held_, {}); }
  /// Decodes a lone Escape as kCancel and drops an incomplete sequence, after a timeout.
  void give_up_sequence();

 private:
  std::optional<Key> paste();
  std::optional<Key> text();
  std::optional<Key> sequence();
  std::optional<Key> control_sequence();
  Key taken(size_t count, KeyKind kind, std::string text = {});

  std::string held_;
  bool pasting_ = false;
  size_t searched_ = 0;  // bytes of a paste already searched for its end
};

}  // namespace veery::cli

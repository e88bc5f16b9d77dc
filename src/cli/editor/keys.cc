#include "cli/editor/keys.h"

#include <algorithm>

#include "base/utf8.h"

namespace veery::cli {
namespace {

constexpr std::string_view kPasteEnd = "\x1b[201~";

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

KeyKind control_key(char c) {
  switch (c) {
    case 0x01: return KeyKind::kLineBegin;
    case 0x02: return KeyKind::kLeft;
    case 0x03: return KeyKind::kInterrupt;
    case 0x04: return KeyKind::kEndOrDelete;
    case 0x05: return KeyKind::kLineEnd;
    case 0x06: return KeyKind::kRight;
    case 0x07: return KeyKind::kCancel;
    case 0x08:
    case 0x7f: return KeyKind::kBackspace;
    case '\t': return KeyKind::kTab;
    case '\n':
    case '\r': return KeyKind::kEnter;
    case 0x0b: return KeyKind::kKillToEnd;
    case 0x0c: return KeyKind::kClearScreen;
    case 0x0e: return KeyKind::kDown;
    case 0x10: return KeyKind::kUp;
    case 0x12: return KeyKind::kSearchOlder;
    case 0x13: return KeyKind::kSearchNewer;
    case 0x15: return KeyKind::kKillToBegin;
    case 0x17: return KeyKind::kKillWordLeft;
    case 0x19: return KeyKind::kYank;
    case 0x1a: return KeyKind::kSuspend;
    default: return KeyKind::kOther;
  }
}

KeyKind alt_key(char c) {
  switch (c) {
    case '\n':
    case '\r': return KeyKind::kNewLine;
    case 0x08:
    case 0x7f: return KeyKind::kKillWordLeft;
    case 'b': return KeyKind::kWordLeft;
    case 'd': return KeyKind::kKillWordRight;
    case 'f': return KeyKind::kWordRight;
    default: return KeyKind::kOther;
  }
}

/// Cursor keys by the final byte of their sequence.
KeyKind cursor_key(char last, bool modified) {
  switch (last) {
    case 'A': return KeyKind::kUp;
    case 'B': return KeyKind::kDown;
    case 'C': return modified ? KeyKind::kWordRight : KeyKind::kRight;
    case 'D': return modified ? KeyKind::kWordLeft : KeyKind::kLeft;
    case 'F': return KeyKind::kLineEnd;
    case 'H': return KeyKind::kLineBegin;
    case 'M': return KeyKind::kEnter;  // of the number pad
    default: return KeyKind::kOther;
  }
}

/// CSI NUMBER ~: the numbers of the VT220 and of its successors.
KeyKind numbered_key(std::string_view parameters) {
  const std::string_view number = parameters.substr(0, parameters.find(';'));
  if (number == "1" || number == "7") return KeyKind::kLineBegin;
  if (number == "4" || number == "8") return KeyKind::kLineEnd;
  if (number == "3") return KeyKind::kDelete;
  // xterm's modifyOtherKeys: 27 ; MODIFIER ; CODE
  if (number == "27" && parameters.ends_with(";13")) return KeyKind::kNewLine;
  return KeyKind::kOther;
}

std::string normal_lines(std::string_view pasted) {
  std::string text;
  for (size_t i = 0; i < pasted.size(); ++i) {
    if (pasted[i] != '\r')
      text += pasted[i];
    else if (i + 1 == pasted.size() || pasted[i + 1] != '\n')
      text += '\n';  // terminals send CR for a line break
  }
  return valid_utf8(text);
}

}  // namespace

Key KeyReader::taken(size_t count, KeyKind kind, std::string text) {
  held_.erase(0, count);
  return {kind, std::move(text)};
}

std::optional<Key> KeyReader::next() {
  if (pasting_) return paste();
  if (held_.empty()) return std::nullopt;
  if (held_[0] == '\x1b') return sequence();
  if (!is_control(held_[0])) return text();
  return taken(1, control_key(held_[0]));
}

std::optional<Key> KeyReader::paste() {
  const size_t end = held_.find(kPasteEnd, searched_);
  if (end == std::string::npos) {
    searched_ = held_.size() - std::min(held_.size(), kPasteEnd.size() - 1);
    return std::nullopt;
  }
  pasting_ = false;
  return taken(end + kPasteEnd.size(), KeyKind::kPaste,
               normal_lines(std::string_view(held_).substr(0, end)));
}

std::optional<Key> KeyReader::text() {
  const auto end = std::find_if(held_.begin(), held_.end(), is_control);
  std::string text(held_.begin(), end);
  if (end == held_.end())
    text.resize(text.size() - static_cast<size_t>(incomplete_utf8_suffix(text)));
  if (text.empty()) return std::nullopt;
  return taken(text.size(), KeyKind::kText, valid_utf8(text));
}

std::optional<Key> KeyReader::sequence() {
  if (held_.size() < 2) return std::nullopt;
  if (held_[1] == '[') return control_sequence();
  if (held_[1] == 'O') {
    if (held_.size() < 3) return std::nullopt;
    return taken(3, cursor_key(held_[2], false));
  }
  if (held_[1] == '\x1b') return taken(1, KeyKind::kCancel);
  const std::string_view letter = std::string_view(held_).substr(1);
  if (incomplete_utf8_suffix(letter.substr(0, 4)) == std::ssize(letter)) return std::nullopt;
  const auto length = static_cast<size_t>(next_code_point(letter).length);
  return taken(1 + length, alt_key(held_[1]));
}

// ECMA-48: parameter bytes, intermediate bytes and a final byte, which is the function.
std::optional<Key> KeyReader::control_sequence() {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(held_[i]); };
  size_t end = 2;
  while (end < held_.size() && byte(end) >= 0x20 && byte(end) < 0x40) ++end;
  if (end == held_.size()) return std::nullopt;
  const char last = held_[end];
  if (byte(end) < 0x40 || byte(end) > 0x7e) return taken(end, KeyKind::kOther);  // malformed
  if (last == '[' && end == 2) {  // a function key of the Linux console: one more letter follows
    if (held_.size() < 4) return std::nullopt;
    return taken(4, KeyKind::kOther);
  }
  const std::string parameters = held_.substr(2, end - 2);
  if (last == '~' && parameters == "200") {
    held_.erase(0, end + 1);
    pasting_ = true;
    searched_ = 0;
    return paste();
  }
  KeyKind kind = cursor_key(last, parameters.find(';') != std::string::npos);
  if (last == '~') kind = numbered_key(parameters);
  if (last == 'u') kind = parameters.starts_with("13;") ? KeyKind::kNewLine : KeyKind::kOther;
  return taken(end + 1, kind);
}

void KeyReader::give_up_sequence() {
  if (!awaits_sequence()) return;
  const bool escape = held_.size() == 1;
  held_ = escape ? "\x07" : "";  // Escape acts as Ctrl-G
}

}  // namespace veery::cli

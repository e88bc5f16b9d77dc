#include "cli/editor/plain_editor.h"

#include "cli/editor/entry.h"
#include "cli/editor/layout.h"

namespace veery::cli {
namespace {

constexpr std::string_view kPrompt = "> ", kNextLine = "\n. ";

}  // namespace

void PlainEditor::begin() {
  text_.clear();
  terminal_.write(kPrompt);
}

void PlainEditor::resumed() {
  const std::string text = text_;
  begin();
  append(text);
}

void PlainEditor::end_line(std::string_view note) {
  echo(note);
  terminal_.write("\n");
}

void PlainEditor::echo(std::string_view text) const {
  if (terminal_.echoes()) terminal_.write(text);
}

void PlainEditor::append(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size(); at = character_end(text, at))
    shown += text[at] == '\n' ? std::string(kNextLine) : cell_at(text, at, 0).shown;
  text_ += text;
  echo(shown);
}

bool PlainEditor::remove_character() {
  if (text_.empty() || text_.back() == '\n') return false;
  const size_t begin = character_begin(text_, text_.size());
  std::string shown;
  for (int i = cell_at(text_, begin, 0).width; i > 0; --i) shown += "\b \b";
  text_.resize(begin);
  echo(shown);
  return true;
}

void PlainEditor::remove_word() {
  while (text_.ends_with(' ') && remove_character()) {
  }
  while (!text_.ends_with(' ') && remove_character()) {
  }
}

Editor::Outcome PlainEditor::handle(const Key& key) {
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste: append(key.text); break;
    case KeyKind::kTab: append("\t"); break;
    case KeyKind::kNewLine: append("\n"); break;
    case KeyKind::kEnter:
      if (!goes_on(text_)) return Outcome::kEntered;
      terminal_.write(kNextLine);
      break;
    case KeyKind::kBackspace: remove_character(); break;
    case KeyKind::kKillWordLeft: remove_word(); break;
    case KeyKind::kKillToBegin:
      while (remove_character()) {
      }
      break;
    default: break;
  }
  return Outcome::kGoOn;
}

}  // namespace veery::cli

// plain_editor.h: an editor for terminals that cannot move the cursor: it only appends.
#pragma once
#include "cli/editor/editor.h"

namespace veery::cli {

class PlainEditor : public Editor {
 public:
  using Editor::Editor;

 private:
  void begin() override;
  Outcome handle(const Key& key) override;
  void resumed() override;
  void end_line(std::string_view note) override;

  void echo(std::string_view text) const;
  void append(std::string_view text);
  /// Returns false if the line is empty.
  bool remove_character();
  void remove_word();
};

}  // namespace veery::cli

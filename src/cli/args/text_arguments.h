// text_arguments.h: the text that a verb works on: -p, -f, words after MODEL or standard input.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "cli/args/arguments.h"

namespace veery::cli {

struct TextArguments {
  std::optional<std::string> prompt, file;
  std::vector<std::string> words;  ///< after MODEL; joined by spaces they are another -p
  /// -p, -f and piped standard input together form one text. False: exactly one of them is used.
  bool combined = false;

  struct Options {
    Option prompt, file;
  };
  /// `name`: the name of the words in the help. `what`: the help of -p.
  Options add(Arguments& app, const std::string& name, const std::string& what);
  /// Makes the words the prompt, a lone "-" standard input. Call it after app.read(). Throws
  /// Misuse if words are given together with -p, one of `others` or, unless `combined`, -f.
  void join_words(const Arguments& app, std::initializer_list<const char*> others = {});
  bool given() const { return prompt || file; }
  /// Returns the prompt unchanged, else the file or standard input with LF for CR LF. If
  /// `combined`, joins piped standard input, the file and the prompt by blank lines, without the
  /// newlines that end them. Throws as read_file() does.
  std::string read() const;
};

}  // namespace veery::cli

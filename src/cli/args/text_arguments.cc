#include "cli/args/text_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"
#include "cli/args/input.h"

namespace veery::cli {

TextArguments::Options TextArguments::add(Arguments& app, const std::string& name,
                                          const std::string& what) {
  app.take_words(name, words, "Same as -p; words are joined by spaces");
  const Option given = app.option("-p,--prompt", prompt, what).type_name("TEXT").allow_empty();
  const Option read_from =
      app.option("-f,--file", file, "Read the text from FILE; -: standard input").type_name("FILE");
  if (!combined) read_from.excludes(given);
  return {given, read_from};
}

void TextArguments::join_words(const Arguments& app, std::initializer_list<const char*> others) {
  if (words.empty()) return;
  std::vector<const char*> flags = {"--prompt"};
  flags.insert(flags.end(), others);
  const bool input = words.size() == 1 && words.front() == "-";
  if (!combined || input) flags.push_back("--file");
  for (const char* flag : flags)
    if (app.count(flag) > 0)
      throw Misuse(fmt::format("unknown argument '{}': the text is already given by {}",
                               words.front(), flag));
  if (input)
    file = "-";
  else
    prompt = fmt::format("{}", fmt::join(words, " "));
}

std::string TextArguments::read() const {
  if (!combined) {
    if (prompt) return *prompt;
    return unix_lines(file ? read_file(*file) : read_standard_input());
  }
  std::vector<std::string> parts;
  const auto add_file = [&](std::string read) {
    std::string text = unix_lines(std::move(read));
    if (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) parts.push_back(std::move(text));
  };
  if (!given())
    add_file(read_standard_input());
  else if (file != "-" && input_is_piped())
    add_file(read_standard_input());
  if (file) add_file(read_file(*file));
  if (prompt && (parts.empty() || !prompt->empty())) parts.push_back(*prompt);
  return fmt::format("{}", fmt::join(parts, "\n\n"));
}

}  // namespace veery::cli

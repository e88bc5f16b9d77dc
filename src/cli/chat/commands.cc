#include "cli/chat/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/chat/settings.h"

namespace veery::cli {
namespace {

constexpr Command kCommands[] = {
    {"/help", Action::kHelp},
    {"/reset", Action::kClear},
    {"/clear", Action::kClear},
    {"/undo", Action::kUndo},
    {"/retry", Action::kRetry},
    {"/regen", Action::kRetry},
    {"/save", Action::kSave, "[--force] FILE"},
    {"/load", Action::kLoad, "FILE"},
    {"/set", Action::kSet, "NAME VALUE"},
    {"/show", Action::kShow, "messages", true},
    {"/exit", Action::kLeave},
    {"/bye", Action::kLeave},
    {"/quit", Action::kLeave},
    {"/?", Action::kHelp},
};

constexpr std::string_view kHelp =
    "/help            show this list\n"
    "/undo            remove the last message and its answer\n"
    "/retry           answer the last message again (also /regen)\n"
    "/clear, /reset   remove the conversation\n"
    "/save FILE       save the conversation; --force before FILE replaces any file\n"
    "/load FILE       continue a saved conversation\n"
    "/set NAME VALUE  change a setting: temperature 0.5, system TEXT, think on, ...\n"
    "/show            show the settings; /show messages: the conversation\n"
    "/exit, /bye      exit (also /quit, Ctrl-D)\n"
    "//...            a message that begins with /\n"
    "\n"
    "Alt-Enter        new line (also a backslash before Enter; a paste keeps its lines)\n"
    "\"\"\"              begin or end a message of several lines\n"
    "Ctrl-C           stop an answer, or clear the line; twice on an empty line: exit\n"
    "Up, Down         earlier and later messages; Ctrl-R searches them\n"
    "Tab              complete commands, settings and file names\n";

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Command& command : kCommands)
    if (command.name != "/?") all.emplace_back(command.name);
  return all;
}

std::vector<std::string> beginning_with(const std::vector<std::string>& all,
                                        std::string_view begin) {
  std::vector<std::string> found;
  for (const std::string& word : all)
    if (word.starts_with(begin)) found.push_back(word);
  return found;
}

// Returns the paths of files that begin with `begin`; folders end with a slash.
std::vector<std::string> files(const std::string& begin) {
  const size_t slash = begin.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : begin.substr(0, slash + 1);
  std::vector<std::string> found;
  try {
    for (const std::string& name : list_folder(folder.empty() ? "." : folder)) {
      const std::string path = folder + name;
      const bool hidden = name.starts_with('.') && begin.size() == folder.size();
      if (path.starts_with(begin) && !hidden && printable(name, name.size()) == name)
        found.push_back(path + (is_folder(path) ? "/" : ""));
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;  // an unreadable folder has no completions
  }
  return found;
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string_view command_help() { return kHelp; }

CommandLine parse_command(const std::string& line) {
  const std::string name = line.substr(0, line.find_first_of(" \t"));
  const size_t begin = std::min(line.find_first_not_of(" \t", name.size()), line.size());
  const size_t end = line.find_last_not_of(" \t") + 1;
  const std::string argument = line.substr(begin, end - std::min(begin, end));
  const auto known = std::ranges::find(kCommands, name, &Command::name);
  if (known == std::end(kCommands))
    throw Error(ErrorKind::kInput,
                "unknown command '{}', expected one of {} (to send it as a message: /{})",
                escaped(name), fmt::join(names(), ", "), escaped(name));
  if (known->argument.empty() && !argument.empty())
    throw Error(ErrorKind::kInput,
                "'{}' takes no argument; commands are {} (to send it as a message: /{})",
                escaped(name), fmt::join(names(), ", "), escaped(name));
  if (!known->argument.empty() && argument.empty() && !known->optional)
    throw Error(ErrorKind::kInput, "missing argument, expected {} {}", name, known->argument);
  return {known->action, argument};
}

Completion complete_command(const std::string& entry) {
  const size_t space = entry.find(' ');
  if (space == std::string::npos) return {0, beginning_with(names(), entry)};
  const auto known = std::ranges::find(kCommands, entry.substr(0, space), &Command::name);
  if (known == std::end(kCommands)) return {};
  const size_t begin = std::min(entry.find_first_not_of(' ', space), entry.size());
  const std::string argument = entry.substr(begin);
  switch (known->action) {
    case Action::kSave:
    case Action::kLoad: return {begin, files(argument)};
    case Action::kSet: return {begin, beginning_with(setting_names(), argument)};
    case Action::kShow: return {begin, beginning_with({"messages"}, argument)};
    default: return {};
  }
}

}  // namespace veery::cli

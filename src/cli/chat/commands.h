// commands.h: the commands of a chat, by name.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/editor/editor.h"

namespace veery::cli {

enum class Action { kHelp, kClear, kUndo, kRetry, kSave, kLoad, kSet, kShow, kLeave };

struct Command {
  std::string_view name;
  Action action;
  std::string_view argument = {};  ///< what follows it, for messages; empty: nothing may
  bool optional = false;           ///< the argument may be left out
};

/// The commands with their other spellings.
std::span<const Command> commands();

/// A line that begins with a slash, taken apart. Throws kInput naming a command that is unknown, or
/// an argument that is missing or must not be there.
struct CommandLine {
  Action action;
  std::string argument;
};
CommandLine parse_command(const std::string& line);

/// Returns the text of /help.
std::string_view command_help();

/// Completes names of commands, of settings and of files.
Completion complete_command(const std::string& entry);

}  // namespace veery::cli

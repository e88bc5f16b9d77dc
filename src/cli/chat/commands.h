// commands.h: parses and completes the commands of a chat.
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
  std::string_view argument = {};  ///< name of the argument for messages; empty: none
  bool optional = false;           ///< the argument may be left out
};

/// Returns the commands with their other spellings.
std::span<const Command> commands();

struct CommandLine {
  Action action;
  std::string argument;
};
/// Parses a line that begins with a slash. Throws kInput naming an unknown command, or a missing or
/// superfluous argument.
CommandLine parse_command(const std::string& line);

/// Returns the text of /help.
std::string_view command_help();

/// Completes the names of commands, settings and files.
Completion complete_command(const std::string& entry);

}  // namespace veery::cli

// entry.h: interprets an entry of a chat as a message or a command.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// Returns whether Enter at the end of `entry` starts a new line instead of sending it: after a
/// backslash, which the line break replaces, and between two `"""`. Appends the line break then.
bool goes_on(std::string& entry);

/// Whether the entry is a single line that begins with exactly one slash.
bool is_command(std::string_view entry);

/// Returns the message: without the `"""` around it, and without the slash or space that escapes a
/// leading slash.
std::string message_of(std::string_view entry);

}  // namespace veery::cli

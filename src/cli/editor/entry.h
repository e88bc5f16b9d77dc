// entry.h: what is typed in a chat, before it is a message or a command.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// Whether Enter, at the end of what was typed, goes on with the next line: behind a backslash,
/// which the line break then replaces, and between `"""` and `"""`. Then the line break is there.
bool goes_on(std::string& entry);

/// One line that begins with one slash.
bool is_command(std::string_view entry);

/// The text for the model: without `"""` around it, and without the slash or the space that one
/// line has before a slash so that it is no command.
std::string message_of(std::string_view entry);

}  // namespace veery::cli

// settings.h: `/set` and `/show` of a chat.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/chat/chat_state.h"

namespace veery::cli {

/// The names that change_setting() knows, sorted.
const std::vector<std::string>& setting_names();

/// Changes what `words`, "NAME VALUE", say; a '-' in NAME is a '_'. "parameter NAME VALUE" and
/// "nothink" are as Ollama has them. Returns one line that says what holds now. Throws kInput
/// naming what was found and what was expected; nothing is changed then.
std::string change_setting(ChatState& state, std::string_view words);

/// The settings, each a line: model, system message, parameters, tools. `context`: tokens that a
/// prompt and its answer may have.
std::string shown_settings(const ChatState& state, int64_t context);

/// The conversation, each message after a line with its role.
std::string shown_messages(const ChatState& state);

}  // namespace veery::cli

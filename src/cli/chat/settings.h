// settings.h: `/set` and `/show` of a chat.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/chat/chat_state.h"

namespace veery::cli {

/// Returns the names of all settings, sorted.
const std::vector<std::string>& setting_names();

/// Changes a setting: `words` is "NAME VALUE", where a '-' in NAME counts as '_'. Also accepts
/// Ollama's "parameter NAME VALUE" and "nothink". Returns a line with the new value. Throws kInput
/// naming what was found and expected; the state is then unchanged.
std::string change_setting(ChatState& state, std::string_view words);

/// Returns the settings, a line each. `context`: the context length in tokens.
std::string shown_settings(const ChatState& state, int64_t context);

/// Returns the conversation, each message after a line with its role.
std::string shown_messages(const ChatState& state);

}  // namespace veery::cli

// anthropic_prompt.h: requests of Anthropic's Messages API as chats.
#pragma once
#include <optional>
#include <string>

#include "serve/api/fields.h"
#include "serve/api/prompt.h"
#include "serve/api/tool_choice.h"

namespace veery::serve {

struct AnthropicPrompt {
  ChatPrompt chat;
  ToolChoice choice;
  std::optional<int64_t> thinking_budget;  ///< tokens of reasoning
  bool hide_thinking = false;              ///< blocks of thinking come without their text
  const Json* format = nullptr;  ///< of the answer: {"type": "json_schema", "schema": ...}
  const char* format_field = "output_config.format";
};

/// Reads what /v1/messages and /v1/messages/count_tokens share. Refers to the fields' JSON. Throws
/// ApiError naming the message and block of what cannot be read.
AnthropicPrompt read_anthropic_prompt(const Fields& fields);

/// The signature of a block of thinking. It holds the text if the block itself does not.
std::string thinking_signature(const std::string& thinking, bool hidden);

}  // namespace veery::serve

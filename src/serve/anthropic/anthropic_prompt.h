// anthropic_prompt.h: converts requests of Anthropic's Messages API to chats.
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
  bool hide_thinking = false;              ///< thinking blocks have no text
  const Json* format = nullptr;  ///< of the answer: {"type": "json_schema", "schema": ...}
  const char* format_field = "output_config.format";
};

/// Reads the fields that /v1/messages and /v1/messages/count_tokens share. The result refers to the
/// JSON of the fields. Throws ApiError naming the message and block that is not supported.
AnthropicPrompt read_anthropic_prompt(const Fields& fields);

/// Returns the signature of a thinking block. It contains the text if the block does not.
std::string thinking_signature(const std::string& thinking, bool hidden);

}  // namespace veery::serve

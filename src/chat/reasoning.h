// reasoning.h: the variables by which clients switch the reasoning of a model.
#pragma once
#include <string_view>

#include "base/json.h"

namespace veery {

/// Sets the variables that switch reasoning: enable_thinking (Qwen 3, GLM, SmolLM3) and thinking
/// (DeepSeek V3.1, Granite). Templates without a switch ignore both. `variables`: an object.
void set_thinking(Json& variables, bool wanted);

/// Sets reasoning_effort (gpt-oss), any word; "none" switches reasoning off too.
void set_reasoning_effort(Json& variables, std::string_view effort);

/// The levels that "think" of Ollama and --think take: set_thinking() and set_reasoning_effort().
bool is_reasoning_level(std::string_view word);

}  // namespace veery

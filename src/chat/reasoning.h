// reasoning.h: template variables that switch the reasoning of a model.
#pragma once
#include <string_view>

#include "base/json.h"

namespace veery {

/// Sets enable_thinking (Qwen 3, GLM, SmolLM3) and thinking (DeepSeek V3.1, Granite). Templates
/// without a switch ignore both. `variables`: an object.
void set_thinking(Json& variables, bool wanted);

/// Sets reasoning_effort (gpt-oss) to any word; "none" also switches reasoning off.
void set_reasoning_effort(Json& variables, std::string_view effort);

/// Whether `word` is a level of --think and of Ollama's "think".
bool is_reasoning_level(std::string_view word);

}  // namespace veery

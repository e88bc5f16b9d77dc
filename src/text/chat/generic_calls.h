// generic_calls.h: tool use for models whose chat template does not support it. Tools are described
// in the system message, calls are JSON between marks, results are user messages.
#pragma once
#include <string>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/grammar/call_form.h"

namespace veery {

/// The feature of AnswerFormat that parses calls of generic_call_form() if the format has no marks
/// of its own.
inline constexpr std::string_view kGenericCalls = "tool_call";

/// Returns the form {"name": ..., "arguments": {...}} between the marks that `format` has for calls
/// as JSON or code, otherwise between <tool_call> and </tool_call>.
CallForm generic_call_form(const AnswerFormat& format);

/// Returns JSON with a space after each comma and colon, as models write it. A call in a later
/// prompt then has the same text as in the answer, so that the prefix cache matches.
std::string spaced_json(const Json& value);

/// Adds empty descriptions and parameters to tools that lack them, because templates read these
/// fields unconditionally, and removes fields meant for servers ("strict", "cache_control").
/// `properties`: also adds missing `properties` to the parameters.
Json completed_tools(const Json& tools, bool properties = false);

/// Adds a description of `tools` to the leading system message, which is created if missing. If
/// `system` is false, the first user message is used instead. `form` is the syntax of calls that
/// the text describes.
Json with_described_tools(const Json& messages, const Json& tools, const CallForm& form,
                          bool system);

/// Converts tool calls in assistant messages to text, and tool results to user messages, which are
/// merged with the user message that follows.
Json with_calls_as_text(const Json& messages, const CallForm& form);

}  // namespace veery

// generic_calls.h: tools for models whose chat template has no place for them: described in the
// system message, called in JSON between marks, their results in messages of the user.
#pragma once
#include <string>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/grammar/call_form.h"

namespace veery {

/// The feature of AnswerFormat that reads calls of generic_call_form() back, where the format has
/// no marks of its own.
inline constexpr std::string_view kGenericCalls = "tool_call";

/// Calls as {"name": ..., "arguments": {...}} between the marks that `format` has for calls as JSON
/// or code, otherwise between <tool_call> and </tool_call>.
CallForm generic_call_form(const AnswerFormat& format);

/// JSON with a space after each comma and colon, as models write it: the text of a call in a later
/// prompt is then that of the answer, which the prefix cache has.
std::string spaced_json(const Json& value);

/// Completes tools that have no description or no parameters, which templates read unasked, and
/// drops hints for servers ("strict", "cache_control"); `properties`: also completes parameters
/// without properties.
Json completed_tools(const Json& tools, bool properties = false);

/// Describes `tools` in the first system message of `messages`, or in a new one; `system` false:
/// in the first message of the user. `form` shows how a call is written.
Json with_described_tools(const Json& messages, const Json& tools, const CallForm& form,
                          bool system);

/// Writes calls of tools into the texts of the assistant's messages, and their results into
/// messages of the user, which join the user's message that follows.
Json with_calls_as_text(const Json& messages, const CallForm& form);

}  // namespace veery

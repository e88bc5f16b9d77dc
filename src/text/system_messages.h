// system_messages.h: system and developer messages moved to where a chat template renders them.
#pragma once
#include <functional>
#include <string>

#include "base/json.h"

namespace veery {

/// Returns `messages` such that `render` writes the text of each system and developer message.
///
/// Templates differ: some know no role "developer", some refuse a system message after the first
/// message, some leave it out without an error. The messages are rendered with a marker in place of
/// each such text. Where markers are missing, or rendering throws, developer messages become system
/// messages, and then the texts that are still missing are appended to the first system message,
/// which is made if there is none. If that brings two user messages together and the template
/// refuses them, they become one. If the template leaves out every system message without an error,
/// the text begins the first user message. Messages that no change helps are returned as they are.
///
/// `render` may throw kInput, kFormat and kLimit. A system message in front, if it is the only one,
/// stays as it is.
Json fit_system_messages(const Json& messages,
                         const std::function<std::string(const Json&)>& render);

/// Returns `messages` with the text of a system message in front at the beginning of the first user
/// message, if `render` would leave that system message out without an error.
Json keep_first_system(const Json& messages, const std::function<std::string(const Json&)>& render);

}  // namespace veery

// system_messages.h: moves system and developer messages to where a chat template renders them.
#pragma once
#include <functional>
#include <string>

#include "base/json.h"

namespace veery {

/// Returns `messages`, changed as little as needed for `render` to include each system and
/// developer message.
///
/// Templates differ: some do not know the role "developer", some reject a system message after the
/// first message, some silently omit it. To find out, the messages are rendered with a marker in
/// place of each such text. If rendering throws or markers are missing, the following changes are
/// tried in order:
/// 1. Developer messages become system messages.
/// 2. The texts that are still missing are appended to the leading system message, which is created
///    if there is none.
/// 3. If this makes two user messages adjacent and the template rejects that, they are merged.
/// 4. If the template silently omits every system message, the text is prepended to the first user
///    message.
/// If nothing helps, the messages are returned unchanged.
///
/// `render` may throw kInput, kFormat and kLimit. A single leading system message is left as it is.
Json fit_system_messages(const Json& messages,
                         const std::function<std::string(const Json&)>& render);

/// Returns `messages` with the leading system message moved to the start of the first user message,
/// if `render` would silently omit it.
Json keep_first_system(const Json& messages, const std::function<std::string(const Json&)>& render);

}  // namespace veery

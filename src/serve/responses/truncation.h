// truncation.h: drops the oldest messages of conversations that are too long.
#pragma once
#include "serve/api/prompt.h"
#include "serve/models/models.h"

namespace veery::serve {

/// Returns groups of message indices in the order in which they can be dropped: the turns before
/// the last message of the user, then the steps after it. A turn begins with the user; a step is a
/// message of the assistant with the results of its calls. System and developer messages, the last
/// message of the user and the last step are never dropped.
std::vector<std::vector<size_t>> droppable_messages(const Json& messages);

/// Renders `chat` after dropping the fewest groups with which it fits the context of the model.
/// Throws as render_for_answer() does if it does not fit even without any group.
RenderedChat render_truncated(ServedModel& model, const ChatPrompt& chat, const char* field);

}  // namespace veery::serve

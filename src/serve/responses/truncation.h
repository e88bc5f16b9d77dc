// truncation.h: conversations that are too long without their oldest messages.
#pragma once
#include "serve/api/prompt.h"
#include "serve/models/models.h"

namespace veery::serve {

/// Groups of messages in the order in which they can be left out: the turns before the last message
/// of the user, then the steps after it. A turn begins with the user; a step is a message of the
/// assistant with the results of its calls. System and developer messages, the last message of the
/// user and the last step are in no group.
std::vector<std::vector<size_t>> droppable_messages(const Json& messages);

/// Renders `chat` without as few of these groups as it takes to fit the context of the model.
/// Throws as render_for_answer() does if it does not fit without all of them.
RenderedChat render_truncated(ServedModel& model, const ChatPrompt& chat, const char* field);

}  // namespace veery::serve

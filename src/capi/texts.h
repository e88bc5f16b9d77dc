// texts.h: prompts of conversations.
#pragma once
#include "capi/loaded_model.h"
#include "chat/conversation.h"

namespace veery::capi {

/// Returns the prompt of a chat and the format of its answer. `messages`: a JSON list; `variables`:
/// a JSON object, or null. Throws kInput or kFormat naming the one that is wrong, kUnsupported if
/// the model has no template.
RenderedConversation render_chat(const LoadedModel& model, const char* messages,
                                 const char* variables);

}  // namespace veery::capi

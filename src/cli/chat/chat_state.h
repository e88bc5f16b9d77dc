// chat_state.h: the state of a chat on a terminal: conversation, sampling and display settings.
#pragma once
#include <string>

#include "chat/chat.h"
#include "chat/chat_file.h"
#include "engine/answer_text.h"

namespace veery::cli {

struct ChatState {
  const Model& model;
  std::string model_name;  ///< as given on the command line
  Chat chat;
  GenerateOptions options = {};
  bool quiet = false;          ///< print no summary after an answer
  bool hide_thinking = false;  ///< do not print the reasoning
  bool context_shift = false;  ///< drop the oldest turns when the context is full
};

/// Returns the chat in the form of a file.
ChatFile chat_file_of(const ChatState& state);

/// Sets sampling and length from `parameters`. Throws kInput naming `where` and a parameter that is
/// unknown or out of range.
void apply_parameters(GenerateOptions& options, const Json& parameters, const std::string& where);

/// Replaces the conversation by that of the file. Parameters, template variables and tools that the
/// file does not have stay as they are. Throws as apply_parameters() does, and as Chat::render()
/// does if the template refuses the messages; the state is then unchanged.
void apply_chat_file(ChatState& state, const ChatFile& file, const std::string& where);

}  // namespace veery::cli

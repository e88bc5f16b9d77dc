// chat_state.h: what a chat on a terminal is made of: what was said, and how the next answer is
// made and shown.
#pragma once
#include <string>

#include "chat/chat.h"
#include "chat/chat_file.h"
#include "engine/answer_text.h"

namespace veery::cli {

struct ChatState {
  const Model& model;
  std::string model_name;  ///< as the user wrote it
  Chat chat;
  GenerateOptions options = {};
  bool quiet = false;          ///< no summary after an answer
  bool hide_thinking = false;  ///< reasoning is not shown
  bool context_shift = false;  ///< the oldest turns give way where the context is full
};

/// The chat as a file.
ChatFile chat_file_of(const ChatState& state);

/// Sets the sampling and length that a file has. Throws kInput naming `where` and a parameter that
/// is unknown or out of range.
void apply_parameters(GenerateOptions& options, const Json& parameters, const std::string& where);

/// Replaces the conversation by that of the file. Parameters, template variables and tools that the
/// file does not have stay as they are. Throws as apply_parameters() does, and as Chat::render()
/// does if the template refuses the messages; the state is then unchanged.
void apply_chat_file(ChatState& state, const ChatFile& file, const std::string& where);

}  // namespace veery::cli

// chat_loop.h: a chat on a terminal.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cli/chat/chat_state.h"
#include "schedule/scheduler.h"

namespace veery::cli {

struct ChatOptions {
  std::shared_ptr<const Grammar> grammar;  ///< of each answer
  SchedulerOptions scheduler;
  std::optional<std::string> session;  ///< file of --session
};

/// Reads messages and answers them until /exit, Ctrl-D, or Ctrl-C twice at the prompt. Ctrl-C
/// during an answer stops the answer. `model` must be the model of `state`.
void chat_loop(Model& model, ChatState state, const ChatOptions& options);

}  // namespace veery::cli

// answerer.h: generates and prints the answers of a chat, and keeps the conversation within the
// context.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/chat/chat_state.h"
#include "cli/output/answer_printer.h"
#include "cli/output/answer_summary.h"
#include "schedule/scheduler.h"

namespace veery::cli {

/// All arguments must outlive it.
class Answerer {
 public:
  /// `stopped`: called about 20 times a second during an answer; true cancels the answer.
  Answerer(ChatState& state, Scheduler& scheduler, std::shared_ptr<const Grammar> grammar,
           std::function<bool()> stopped)
      : state_(state),
        scheduler_(scheduler),
        grammar_(std::move(grammar)),
        stopped_(std::move(stopped)) {}

  /// Answers the conversation and adds the answer to it. If there is no answer, reports why on
  /// standard error and returns false; the caller then restores the messages.
  bool answer();

  /// Returns the prompt tokens and answer tokens of the last part.
  const std::vector<int32_t>& prompt() const { return prompt_; }
  const std::vector<int32_t>& made() const { return made_; }

 private:
  enum class End { kDone, kFailed, kFull };

  size_t context() const { return static_cast<size_t>(scheduler_.context()); }
  void make_room();
  void drop_turns();
  End generate_part(AnswerPrinter& printer, bool continues);
  bool fits(const RenderedConversation& rendered) const;
  void add_answer(bool continues);
  std::string ways_on() const;

  ChatState& state_;
  Scheduler& scheduler_;
  std::shared_ptr<const Grammar> grammar_;
  std::function<bool()> stopped_;
  std::vector<int32_t> prompt_, made_;
  AnswerSummary summary_;  ///< of all parts
  ParsedAnswer parsed_;    ///< of all parts
  std::string text_;       ///< of all parts, as generated
};

}  // namespace veery::cli

// answers.h: answers that are being generated.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/handles.h"
#include "chat/conversation.h"
#include "text/answer/answer_parser.h"

/// The mutex guards the members that calls read and change; calls wait for tokens without it.
struct veery_answer {
  struct Scored {
    veery_token token;
    std::vector<veery_token> top;
  };

  veery_answer(std::shared_ptr<veery::capi::LoadedModel> model,
               std::shared_ptr<veery::Ticket> request)
      : lease(std::move(model)), ticket(std::move(request)) {}
  ~veery_answer();

  const veery::capi::LoadedModel& model() const { return lease.model(); }
  veery_status next(double seconds, veery_piece* given);
  /// Marks the answer as over; does nothing if it is. `whole`: it ended without an error.
  void end(bool whole);

  veery::capi::Lease lease;
  std::shared_ptr<veery::Ticket> ticket;
  /// Called once, at the end, with the generated tokens; with none after an error or if the answer
  /// is freed unread.
  std::function<void(const std::vector<int32_t>&)> on_end;
  mutable std::mutex mutex;
  std::string text, piece;
  std::vector<Scored> scores;
  std::unique_ptr<veery::AnswerParser> parser;  ///< of a chat
  bool over = false;
};

namespace veery::capi {

/// Starts an answer to `ids` on the model's scheduler. `whole`: GenerateRequest::whole. Throws as
/// Scheduler::submit() and make_request().
std::unique_ptr<veery_answer> start(const std::shared_ptr<LoadedModel>& model,
                                    std::vector<int32_t> ids, const veery_generate_options* options,
                                    const RenderedConversation* chat = nullptr, bool whole = false);

}  // namespace veery::capi

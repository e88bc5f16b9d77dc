// answers.h: the answers to one prompt as they come.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "schedule/scheduler.h"
#include "serve/http/message.h"
#include "serve/models/served_model.h"

namespace veery::serve {

/// Says in `request` on whose behalf it is made.
void set_user(GenerateRequest& request, const RequestRecord& record);

/// Ends what is not over when it goes, and when the client goes. The record of the reply has what
/// was used.
class Answers {
 public:
  struct Event {
    int32_t index = -1;  ///< of the answer; -1: nothing came for a while
    AnswerPart piece;
    bool over = false;  ///< this answer has no more pieces
  };

  /// `count` answers, whose seeds are those of the request and the following ones.
  Answers(ServedModel& model, const GenerateRequest& request, int32_t count, Reply& reply);
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// Waits for the next piece of any of them; absent: all are over. Throws what ended one, and an
  /// ApiError with status 503 where the server ends before they are over.
  std::optional<Event> next();
  void cancel();
  /// Ends one of them; next() tells when it is over.
  void cancel(int32_t i) { tickets_[static_cast<size_t>(i)]->cancel(); }
  int32_t count() const { return static_cast<int32_t>(tickets_.size()); }
  const Generation& result(int32_t i) const { return tickets_[static_cast<size_t>(i)]->result(); }
  const std::vector<ScoredToken>& prompt_scores(int32_t i) const {
    return tickets_[static_cast<size_t>(i)]->prompt_scores();
  }

 private:
  struct Bell;
  using Tickets = std::vector<std::shared_ptr<Ticket>>;

  void record_use();

  Reply& reply_;
  std::shared_ptr<Bell> bell_;
  Tickets tickets_;
  std::vector<bool> over_;
  size_t turn_ = 0;
};

}  // namespace veery::serve

// answers.h: the answers to one prompt while they are generated.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "schedule/scheduler.h"
#include "serve/http/message.h"
#include "serve/models/served_model.h"

namespace veery::serve {

/// Sets user, weight and priority of `request`.
void set_user(GenerateRequest& request, const RequestRecord& record);

/// Cancels unfinished answers on destruction or when the client disconnects. Adds the used tokens
/// to the record of the reply.
class Answers {
 public:
  struct Event {
    int32_t index = -1;  ///< of the answer; -1: none had a piece for some seconds
    AnswerPart piece;
    bool over = false;  ///< this answer has no more pieces
  };

  /// Submits `count` requests, with the seed of `request` and the following ones.
  Answers(ServedModel& model, const GenerateRequest& request, int32_t count, Reply& reply);
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// Waits for the next piece of any answer; absent: all are over. Throws the error that ended an
  /// answer, and ApiError 503 if the server stops.
  std::optional<Event> next();
  void cancel();
  /// Cancels one answer; next() still reports its end.
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

#include "serve/api/answers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "serve/api/api_error.h"

namespace veery::serve {
namespace {

constexpr auto kQuiet = std::chrono::seconds(10);  // then a stream sends a ping

}  // namespace

struct Answers::Bell {
  std::mutex mutex;
  std::condition_variable rung;
  bool ringing = false;

  void ring() {
    {
      const std::lock_guard lock(mutex);
      ringing = true;
    }
    rung.notify_one();
  }
  // Returns false after kQuiet without a ring.
  bool wait() {
    std::unique_lock lock(mutex);
    const bool rang = rung.wait_for(lock, kQuiet, [&] { return ringing; });
    ringing = false;
    return rang;
  }
};

void set_user(GenerateRequest& request, const RequestRecord& record) {
  request.user = record.user;
  request.weight = record.weight;
  request.priority = record.priority;
}

Answers::Answers(ServedModel& model, const GenerateRequest& request, int32_t count, Reply& reply)
    : reply_(reply), bell_(std::make_shared<Bell>()), over_(static_cast<size_t>(count)) {
  reply.record().model = model.id();
  for (int32_t i = 0; i < count; ++i) {
    GenerateRequest own = request;
    set_user(own, reply.record());
    own.options.sampling.seed += static_cast<uint64_t>(i);
    own.notify = [bell = bell_] { bell->ring(); };
    try {
      tickets_.push_back(model.scheduler()->submit(std::move(own)));
    } catch (...) {
      for (const auto& ticket : tickets_) ticket->cancel();
      throw;
    }
  }
  reply.on_gone([tickets = tickets_] {
    for (const auto& ticket : tickets) ticket->cancel();
  });
}

Answers::~Answers() {
  for (size_t i = 0; i < tickets_.size(); ++i)
    if (!over_[i]) tickets_[i]->cancel();
  record_use();
}

// The prompt counts once, whatever the number of answers.
void Answers::record_use() {
  RequestRecord& record = reply_.record();
  Progress prompt;
  for (size_t i = 0; i < tickets_.size(); ++i) {
    const Progress progress = tickets_[i]->progress();
    prompt = i == 0 ? progress : prompt;
    record.answer_tokens += progress.tokens;
    if (progress.first_token >= 0 &&
        (record.first_token < 0 || progress.first_token < record.first_token))
      record.first_token = progress.first_token;
    record.finish = over_[i] ? name(tickets_[i]->result().finish) : "cancelled";
  }
  record.prompt_tokens += prompt.prompt;
  record.cached_tokens += prompt.cached;
}

void Answers::cancel() {
  for (const auto& ticket : tickets_) ticket->cancel();
}

std::optional<Answers::Event> Answers::next() {
  while (std::ranges::find(over_, false) != over_.end()) {
    if (reply_.ending()) throw ApiError(503, "the server stops before the end of the answer");
    for (size_t k = 0; k < tickets_.size(); ++k) {
      const size_t i = turn_++ % tickets_.size();
      if (over_[i]) continue;
      Event event{.index = static_cast<int32_t>(i)};
      if (!tickets_[i]->next_within(event.piece, 0)) {
        over_[i] = event.over = true;
        return event;
      }
      if (reply_.record().keeps_texts) reply_.record().answer_text += event.piece.text;
      if (!event.piece.text.empty() || !event.piece.scores.empty()) return event;
    }
    if (!bell_->wait()) return Event{};
  }
  return std::nullopt;
}

}  // namespace veery::serve

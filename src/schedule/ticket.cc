#include "schedule/ticket.h"

#include <chrono>
#include <utility>

namespace veery {

bool Ticket::take(std::unique_lock<std::mutex>& lock, AnswerPart& piece) {
  piece = std::exchange(waiting_, {});
  if (!piece.text.empty() || !piece.scores.empty() || !over_) return true;
  const std::exception_ptr error = error_;
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return false;
}

bool Ticket::next(AnswerPart& piece) {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return over_ || !waiting_.text.empty() || !waiting_.scores.empty(); });
  return take(lock, piece);
}

bool Ticket::next_within(AnswerPart& piece, double seconds) {
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, std::chrono::duration<double>(seconds),
                  [&] { return over_ || !waiting_.text.empty() || !waiting_.scores.empty(); });
  return take(lock, piece);
}

void Ticket::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (wake_) wake_();  // finish() takes the same lock, so the scheduler still exists
}

bool Ticket::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

Progress Ticket::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void Ticket::note(const Progress& progress) {
  const std::lock_guard lock(mutex_);
  progress_ = progress;
}

void Ticket::note_token(double first_token) {
  const std::lock_guard lock(mutex_);
  if (progress_.tokens++ == 0) progress_.first_token = first_token;
}

void Ticket::push(AnswerPart piece) {
  if (piece.text.empty() && piece.scores.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_.text += piece.text;
    for (ScoredToken& score : piece.scores) waiting_.scores.push_back(std::move(score));
  }
  ready_.notify_one();
  if (request_.notify) request_.notify();
}

void Ticket::finish(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    error_ = std::move(error);
    wake_ = nullptr;
  }
  ready_.notify_all();
  if (request_.notify) request_.notify();
}

}  // namespace veery

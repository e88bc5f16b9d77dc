// How waiting requests become running ones, and running ones go back to the queue.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "schedule/scheduler.h"

namespace veery {
namespace {

constexpr int32_t kWorthWaiting = 64;  // tokens that another request is about to compute

}  // namespace

// Returns false if a running request will soon have computed a longer beginning of this prompt than
// the caches hold now. The answer is remembered in the job: many requests may wait for the same
// prompt, and comparing all their tokens before each step would take longer than the step.
bool Scheduler::may_begin(Job& job) const {
  if (job.request().prompt_scores) return true;
  const auto blocker =
      std::ranges::find(running_, job.waits_for, [](const auto& other) { return other->number; });
  if (blocker != running_.end() && (*blocker)->prompting() &&
      (*blocker)->run + kWorthWaiting <= job.shared)
    return false;
  job.waits_for = 0;
  const std::span<const int32_t> ids = job.tokens();
  int32_t found = -1;
  for (const auto& other : running_) {
    if (!other->prompting()) continue;
    const std::span<const int32_t> theirs = other->tokens();
    const auto same = static_cast<int32_t>(std::ranges::mismatch(ids, theirs).in1 - ids.begin());
    if (same < kWorthWaiting) continue;
    if (found < 0) found = sequences_.match(ids, job.positions(runner_.context()));
    if (same < found + kWorthWaiting) continue;
    job.waits_for = other->number;
    job.shared = same;
    return false;
  }
  return true;
}

// The next job to begin, which may take the place of a running one; null: none may begin.
std::unique_ptr<Job> Scheduler::next_job() {
  const auto ready = [&](Job& job) { return may_begin(job); };
  if (!full_ && std::ssize(running_) < plan_.slots) return waiting_.take(ready);
  Preemption preemption = choose_preemption(waiting_, running_, ready);
  if (preemption.job) {
    preempt(running_[preemption.victim], /*keep=*/true);
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(preemption.victim));
  }
  return std::move(preemption.job);
}

void Scheduler::admit() {
  if (running_.empty()) full_ = false;
  while (!waiting_.empty()) {
    std::unique_ptr<Job> job = next_job();
    if (!job) return;
    running_.push_back(std::move(job));
    try {
      begin(*running_.back());
    } catch (...) {
      end(*running_.back(), std::current_exception());
      running_.pop_back();
    }
  }
}

// Puts a running job back into the queue. `keep`: its sequence stays as a cached prefix. Ends the
// job if memory is too short to queue it.
void Scheduler::preempt(std::unique_ptr<Job>& job, bool keep) {
  if (keep)
    sequences_.keep(job->sequence, /*files=*/false);
  else
    sequences_.drop(job->sequence);
  job->sequence = -1;
  job->restart();
  if (head_draft_) head_draft_->forget(job.get());
  ++own_.preempted;
  try {
    waiting_.push_front(std::move(job));
  } catch (...) {
    end(*job, std::current_exception());
  }
}

void Scheduler::begin(Job& job) {
  const int32_t positions = job.positions(runner_.context());
  if (!job.request().prompt_scores) sequences_.restore(job.tokens(), positions);
  job.sequence = job.request().prompt_scores ? sequences_.take_empty(positions)
                                             : sequences_.take(job.tokens(), positions);
  job.run = runner_.position(job.sequence);
  if (!std::exchange(job.begun, true)) {
    const int64_t prompt = std::ssize(job.request().prompt) - job.run;
    own_.reused_tokens += job.run;
    own_.prompt_tokens += prompt;
    own_.latencies.queue.add(seconds_now() - job.submitted());
    waiting_.charge(job, static_cast<double>(prompt));
    job.count_prompt(job.run);
  }
}

}  // namespace veery

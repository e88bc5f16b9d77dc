#include "schedule/policy.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace veery {
namespace {

constexpr int32_t kWorthWaiting = 64;  // tokens that another request is about to compute
constexpr double kAnswerCost = 2;      // of a token; a token of a prompt costs 1 (Sheng et al.)

}  // namespace

Policy::Policy(Session& session, Sequences& sequences, Commit& commit, SchedulerCounts& counts,
               const PolicyOptions& options)
    : session_(session),
      sequences_(sequences),
      commit_(commit),
      counts_(counts),
      options_(options),
      prompt_rows_(options.longest_step, session.model().options().chunk) {
  running_.reserve(static_cast<size_t>(options.slots));
}

void Policy::enqueue(std::unique_ptr<Job> job) {
  try {
    waiting_.push(std::move(job));
  } catch (...) {
    commit_.end(*job, std::current_exception());
  }
}

// Returns false if a running request will soon have computed a longer beginning of this prompt than
// the caches hold now. The answer is remembered in the job: many requests may wait for the same
// prompt, and comparing all their tokens before each step would take longer than the step.
bool Policy::may_begin(Job& job) const {
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
    if (found < 0) found = sequences_.match(ids, job.positions(session_.context()));
    if (same < found + kWorthWaiting) continue;
    job.waits_for = other->number;
    job.shared = same;
    return false;
  }
  return true;
}

// The next job to begin, which may take the place of a running one; null: none may begin.
std::unique_ptr<Job> Policy::next_job() {
  const auto ready = [&](Job& job) { return may_begin(job); };
  const bool full = full_at_ == counts_.finished();
  if (!full && std::ssize(running_) < options_.slots) return waiting_.take(ready);
  Preemption preemption = choose_preemption(waiting_, running_, ready);
  if (preemption.job) preempt(preemption.victim, /*keep=*/true);
  return std::move(preemption.job);
}

void Policy::admit() {
  if (running_.empty()) full_at_.reset();
  while (!waiting_.empty()) {
    std::unique_ptr<Job> job = next_job();
    if (!job) return;
    running_.push_back(std::move(job));
    try {
      begin(*running_.back());
    } catch (...) {
      commit_.end(*running_.back(), std::current_exception());
      running_.pop_back();
    }
  }
}

void Policy::begin(Job& job) {
  commit_.open(job);
  if (std::exchange(job.begun, true)) return;
  const int64_t prompt = std::ssize(job.request().prompt) - job.run;
  counts_.reused_tokens += job.run;
  counts_.prompt_tokens += prompt;
  counts_.latencies.queue.add(seconds_now() - job.submitted());
  waiting_.charge(job, static_cast<double>(prompt));
  job.count_prompt(job.run);
}

// Puts a running job back into the queue. `keep`: its sequence stays as a cached prefix. Ends the
// job if memory is too short to queue it.
void Policy::preempt(size_t victim, bool keep) {
  std::unique_ptr<Job> job = std::move(running_[victim]);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(victim));
  commit_.suspend(*job, keep);
  try {
    waiting_.push_front(std::move(job));
  } catch (...) {
    commit_.end(*job, std::current_exception());
  }
}

// Frees memory of the caches: evicts a cached page or state, else preempts the job that was begun
// last of the user with the most running jobs. Returns false if only one answer runs.
bool Policy::make_room(Pages::Lack lack) {
  if (sequences_.make_room(lack)) return true;
  if (running_.size() < 2) return false;
  preempt(last_of_busiest(running_), /*keep=*/false);
  full_at_ = counts_.finished();
  return true;
}

void Policy::add_parts(Batch& batch) const {
  batch.clear();
  int32_t rows = 0, outputs = session_.most_outputs();
  for (const auto& job : running_)
    if (!job->prompting()) {
      rows += batch.add(*job, 1);
      outputs -= batch.parts.back().outputs;
    }
  int32_t room = rows > 0 ? prompt_rows_.next() : session_.model().options().chunk;
  room = std::min(room, session_.most_rows() - rows);
  for (const auto& job : running_) {
    if (!job->prompting() || room <= 0 || outputs <= 0) continue;
    room -= batch.add(*job, job->scores_rows() ? std::min(room, outputs) : room);
    outputs -= batch.parts.back().outputs;
  }
  for (RunPart& part : batch.parts) part.roots = options_.roots;
}

bool Policy::compose(Batch& batch) {
  while (true) {
    add_parts(batch);
    if (batch.parts.empty()) return false;
    const Pages::Lack lack = session_.lack(batch.parts);
    if (lack == Pages::Lack::kNothing) return true;
    if (make_room(lack)) continue;
    const Error error(ErrorKind::kLimit, "the caches are too small for the next step of an answer");
    commit_.end(*running_.front(), std::make_exception_ptr(error));
    running_.erase(running_.begin());
  }
}

void Policy::settle(const Batch& batch) {
  for (size_t i = 0; i < batch.jobs.size(); ++i) try {
      if (batch.made[i] > 0)
        waiting_.charge(*batch.jobs[i], kAnswerCost * static_cast<double>(batch.made[i]));
    } catch (...) {
      commit_.end(*batch.jobs[i], std::current_exception());
    }
  std::erase_if(running_, [](const auto& job) { return job->sequence < 0; });
}

void Policy::record(const Batch& batch) {
  if (batch.planned) return;
  if (!batch.prefills) seconds_per_step_ = batch.seconds / batch.steps;
  if (!batch.chained) prompt_rows_.record(batch.rows(), batch.seconds);
}

void Policy::drop_cancelled() {
  const auto cancelled = [&](std::unique_ptr<Job>& job) {
    if (!job->cancelled()) return false;
    job->cancel();
    commit_.end(*job);
    return true;
  };
  std::erase_if(running_, cancelled);
  waiting_.erase_if(cancelled);
}

void Policy::fail_running(const std::exception_ptr& error) {
  for (auto& job : running_) commit_.end(*job, error);
  running_.clear();
}

void Policy::cancel_all() {
  const auto cancel = [](std::unique_ptr<Job>& job) {
    job->cancel();
    job->finish();
    return true;
  };
  std::erase_if(running_, cancel);
  waiting_.erase_if(cancel);
}

}  // namespace veery

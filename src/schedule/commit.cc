#include "schedule/commit.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace veery {

void Commit::open(Job& job) {
  const int32_t positions = job.positions(session_.context());
  const bool scores = job.request().prompt_scores;  // needs the logits of every token
  if (!scores) sequences_.restore(job.tokens(), positions);
  job.sequence =
      scores ? sequences_.take_empty(positions) : sequences_.take(job.tokens(), positions);
  job.run = session_.position(job.sequence);
}

void Commit::suspend(Job& job, bool keep) {
  if (keep)
    sequences_.keep(job.sequence, /*files=*/false);
  else
    sequences_.drop(job.sequence);
  job.sequence = -1;
  job.restart();
  speculation_.forget(job);
  ++counts_.preempted;
}

void Commit::end(Job& job, std::exception_ptr error) {
  if (job.finished()) return;
  speculation_.forget(job);
  counts_.drafted_tokens += static_cast<int64_t>(job.result().drafted_tokens);
  counts_.accepted_tokens += static_cast<int64_t>(job.result().accepted_tokens);
  if (job.sequence >= 0) {
    if (error)
      sequences_.drop(job.sequence);
    else
      sequences_.keep(job.sequence, !job.scores());
    job.sequence = -1;
  }
  const bool failed = error != nullptr;
  job.finish(std::move(error));
  counts_.latencies.whole.add(seconds_now() - job.submitted());
  const FinishReason reason = job.result().finish;
  ++(failed                               ? counts_.failed
     : reason == FinishReason::kCancelled ? counts_.cancelled
     : reason == FinishReason::kLength    ? counts_.cut
                                          : counts_.stopped);
}

// Replaces each part of a chained decode by one that verifies the chained tokens.
void Commit::take_chains(Batch& batch) {
  size_t steps = 1;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const std::span<const int32_t> made = session_.chosen(i);
    batch.jobs[i]->take_chain(batch.chain[i], made);
    batch.parts[i] =
        made.empty() ? RunPart{batch.parts[i].sequence, {}, 0} : batch.jobs[i]->part(1);
    steps = std::max(steps, made.size());
  }
  batch.steps = static_cast<int32_t>(steps);
}

// Samples for all jobs in parallel. With a model on a device the thread pool sleeps, and waking 16
// workers took 0.5 ms; samplings that take less time are therefore grouped.
void Commit::choose(const Batch& batch) {
  constexpr int64_t kQuick = 16;
  const std::vector<RunPart>& parts = batch.parts;
  first_outputs_.clear();
  int32_t outputs = 0;
  for (const RunPart& part : parts) {
    first_outputs_.push_back(outputs);
    outputs += part.outputs;
  }
  const auto needs_logits = [](const RunPart& part) {
    return part.outputs > 0 && part.wants == Wants::kLogits;
  };
  const bool quick = batch.chained || (!session_.model().backend().runs_on_host() &&
                                       std::ranges::none_of(parts, needs_logits));
  session_.model().pool().parallel_for(
      std::ssize(parts), quick ? kQuick : 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          if (parts[i].outputs > 0) batch.jobs[i]->choose(session_, first_outputs_[i], parts[i]);
      });
}

void Commit::apply(Batch& batch) {
  if (batch.chained) take_chains(batch);
  choose(batch);
  const double chosen = seconds_now();
  int64_t first_row = 0;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const auto size = std::ssize(batch.parts[i].ids);
    try {
      batch.made[i] = apply_part(*batch.jobs[i], batch.parts[i], chosen, first_row);
    } catch (...) {
      end(*batch.jobs[i], std::current_exception());
    }
    first_row += size;
  }
}

// Updates a job after a run of `part`, whose token rows begin at `first_row` of the run, and
// delivers its text. Returns the number of tokens that it delivered.
int64_t Commit::apply_part(Job& job, const RunPart& part, double chosen, int64_t first_row) {
  const bool was_prompt = job.prompting();
  const int32_t accepted = job.accepted(part);
  sequences_.append(job.sequence, part.ids.first(static_cast<size_t>(accepted)));
  if (accepted < std::ssize(part.ids) && !job.within_choice()) go_back(job, job.run + accepted);
  job.settle(accepted);
  if (was_prompt && accepted > 0 && job.run == std::ssize(job.tokens()))
    session_.save(job.sequence);
  const bool over = !job.failure() && job.deliver(session_.context());
  const int64_t made = count_tokens(job, chosen);
  if (job.failure())
    end(job, job.failure());
  else if (over)
    end(job);
  else
    speculation_.show(job, first_row, accepted);
  return made;
}

// Rewinds the job to a position. After a choice, which may be longer than any draft, windows and
// recurrent states may not reach back to it; then the sequence is run again.
void Commit::go_back(Job& job, int32_t position) {
  if (session_.can_rewind(job.sequence, position)) return session_.rewind(job.sequence, position);
  sequences_.drop(std::exchange(job.sequence, -1));
  job.restart();
  open(job);
}

// Counts the tokens that the job delivered since the last call, and returns their number.
int64_t Commit::count_tokens(Job& job, double now) {
  const int64_t fresh = job.take_fresh();
  if (fresh == 0) return 0;
  counts_.made_tokens += fresh;
  const double last = std::exchange(job.last_token, now);
  if (last == 0)
    counts_.latencies.first_token.add(now - job.submitted());
  else
    counts_.latencies.between_tokens.add((now - last) / static_cast<double>(fresh), fresh);
  return fresh;
}

}  // namespace veery

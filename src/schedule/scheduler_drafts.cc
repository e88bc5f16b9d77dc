// Speculative decoding in the scheduler: which drafts the next step verifies.
#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"
#include "base/mapped_file.h"
#include "schedule/scheduler.h"

namespace veery {

bool Scheduler::set_draft(Job& job, std::span<const int32_t> ids, DraftSource source) {
  const auto count = static_cast<int32_t>(ids.size());
  if (count == 0 || !runner_.can_go_back(job.sequence, count + 1)) return false;
  job.set_draft(ids, source);
  return true;
}

// Uses tokens that the grammar forces, else the source with the higher acceptance rate. Returns the
// rows that the draft adds to the run.
int32_t Scheduler::draft(Job& job, int32_t most, int32_t rows) {
  std::array<double, kMostDrafted> rates;
  const auto cut = [&](std::span<const int32_t> ids, const auto& rate_of) {
    const auto size = static_cast<int32_t>(ids.size());
    for (int32_t i = 0; i < size; ++i) rates[static_cast<size_t>(i)] = rate_of(i);
    const int32_t count =
        options_.always_draft ? size : draft_length_.best(std::span(rates).first(ids.size()), rows);
    return ids.first(static_cast<size_t>(count));
  };
  const std::span<const int32_t> forced =
      cut(job.forced(most), [&](int32_t) { return job.grammar_rate(); });
  if (set_draft(job, forced, DraftSource::kGrammar)) return static_cast<int32_t>(forced.size());
  const std::span<const int32_t> proposed = job.lookup().propose(job.tokens(), most);
  const double rate = job.lookup().rate();
  const std::span<const int32_t> known =
      cut(proposed, [&](int32_t i) { return job.lookup().rate(i); });
  if (maker_ != nullptr && (known.empty() || rate < job.model_rate())) {
    const double each = maker_->seconds_each();
    const int32_t count =
        options_.always_draft ? most : draft_length_.best(job.model_rate(), rows, most, each);
    if (count > 0) {
      draft_requests_.push_back({&job, job.tokens(), count, {}});
      asked_.push_back(&job);
    }
    return count;
  }
  return set_draft(job, known, DraftSource::kLookup) ? static_cast<int32_t>(known.size()) : 0;
}

// Makes no drafts while a prompt is computed: its rows use the time of the step.
void Scheduler::make_drafts() {
  const auto prompting = [](const auto& job) { return job->prompting(); };
  if (options_.draft_tokens == 0 || std::ranges::any_of(running_, prompting)) return;
  draft_requests_.clear();
  asked_.clear();
  auto rows = static_cast<int32_t>(running_.size());
  for (auto& job : running_) {
    const int32_t most = std::min({options_.draft_tokens, job->draft_room(runner_.context()),
                                   runner_.most_outputs() - rows, runner_.most_undone() - 1});
    if (most > 0) rows += draft(*job, most, rows);
  }
  if (asked_.empty()) return;
  if (!propose()) return;
  for (size_t i = 0; i < asked_.size(); ++i)
    set_draft(*asked_[i], draft_requests_[i].draft, DraftSource::kModel);
}

// Answers do not depend on drafts: if the file of the draft model is gone, they go on without
// drafts, and if memory is short, without those of this step.
bool Scheduler::propose() {
  try {
    maker_->propose(draft_requests_);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const FileChanged&) {
    if (!model_draft_) throw;  // the MTP head is part of the model
    maker_ = nullptr;
    model_draft_.reset();
    return false;
  }
}

}  // namespace veery

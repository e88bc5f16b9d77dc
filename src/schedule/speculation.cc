#include "schedule/speculation.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/mapped_file.h"

namespace veery {

DraftModels draft_models(const Model& target, const SchedulerOptions& options) {
  const bool head = !options.draft_model && options.draft_tokens > 0 && HeadDraft::possible(target);
  return {head ? HeadDraft::make_model(target) : nullptr, options.draft_model};
}

ScheduledModels scheduled_models(Model& target, const DraftModels& models) {
  ScheduledModels scheduled{.model = target};
  if (models.head) {
    scheduled.roots = {HeadDraft::kRoot};
    scheduled.draft = models.head.get();
    scheduled.draft_options = [&](int32_t slots) {
      return HeadDraft::session_options(target, slots);
    };
  } else if (models.model) {
    scheduled.draft = models.model.get();
    scheduled.draft_options = [&](int32_t slots) {
      return ModelDraft::session_options(*models.model, slots);
    };
  }
  return scheduled;
}

Speculation::Speculation(Session& session, const DraftModels& models, const CachePlan& plan,
                         const SchedulerOptions& options)
    : session_(session), most_tokens_(options.draft_tokens), always_(options.always_draft) {
  if (models.head) {
    head_ = std::make_unique<HeadDraft>(*models.head, plan.draft_session);
    maker_ = head_.get();
    roots_ = {session.root(HeadDraft::kRoot)};
  } else if (models.model) {
    model_ = std::make_unique<ModelDraft>(session.model(), models.model, plan.draft_session);
    maker_ = model_.get();
  }
}

bool Speculation::set(Job& job, std::span<const int32_t> ids, DraftSource source) {
  const auto count = static_cast<int32_t>(ids.size());
  if (count == 0 || !session_.can_go_back(job.sequence, count + 1)) return false;
  job.set_draft(ids, source);
  return true;
}

// Cuts a draft to the length that pays; rate(i): the acceptance rate of token i.
template <typename Rate>
std::span<const int32_t> Speculation::cut(std::span<const int32_t> ids, int32_t rows,
                                          const Rate& rate) const {
  if (always_) return ids;
  std::array<double, kMostDrafted> rates;
  for (size_t i = 0; i < ids.size(); ++i) rates[i] = rate(static_cast<int32_t>(i));
  const int32_t count = length_.best(std::span(rates).first(ids.size()), rows);
  return ids.first(static_cast<size_t>(count));
}

// Asks the model that makes drafts. Returns the rows that its draft adds to the run.
int32_t Speculation::request(Job& job, int32_t most, int32_t rows) {
  const int32_t count =
      always_ ? most : length_.best(job.model_rate(), rows, most, maker_->seconds_each());
  if (count > 0) {
    requests_.push_back({&job, job.tokens(), count, {}});
    asked_.push_back(&job);
  }
  return count;
}

// Uses tokens that the grammar forces, else the source with the higher acceptance rate. Returns the
// rows that the draft adds to the run.
int32_t Speculation::draft(Job& job, int32_t most, int32_t rows) {
  const std::span<const int32_t> forced =
      cut(job.forced(most), rows, [&](int32_t) { return job.grammar_rate(); });
  if (set(job, forced, DraftSource::kGrammar)) return static_cast<int32_t>(forced.size());
  const std::span<const int32_t> proposed = job.lookup().propose(job.tokens(), most);
  const double rate = job.lookup().rate();
  const std::span<const int32_t> known =
      cut(proposed, rows, [&](int32_t i) { return job.lookup().rate(i); });
  if (maker_ != nullptr && (known.empty() || rate < job.model_rate()))
    return request(job, most, rows);
  return set(job, known, DraftSource::kLookup) ? static_cast<int32_t>(known.size()) : 0;
}

void Speculation::draft(std::span<const std::unique_ptr<Job>> running) {
  const auto prompting = [](const auto& job) { return job->prompting(); };
  if (most_tokens_ == 0 || std::ranges::any_of(running, prompting)) return;
  requests_.clear();
  asked_.clear();
  auto rows = static_cast<int32_t>(running.size());
  for (const auto& job : running) {
    const int32_t most = std::min({most_tokens_, job->draft_room(session_.context()),
                                   session_.most_outputs() - rows, session_.most_undone() - 1});
    if (most > 0) rows += draft(*job, most, rows);
  }
  if (asked_.empty() || !propose()) return;
  for (size_t i = 0; i < asked_.size(); ++i)
    set(*asked_[i], requests_[i].draft, DraftSource::kModel);
}

// Answers do not depend on drafts: if the file of the draft model is gone, they go on without
// drafts, and if memory is short, without those of this step.
bool Speculation::propose() {
  try {
    maker_->propose(requests_);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const FileChanged&) {
    if (!model_) throw;  // the MTP head is part of the model
    maker_ = nullptr;
    model_.reset();
    return false;
  }
}

void Speculation::show(const Job& job, int64_t row, int32_t count) {
  const std::span<const int32_t> tokens = job.tokens();
  if (!head_ || !job.request().choices.empty() || std::ssize(tokens) <= job.run) return;
  hidden_.clear();
  for (int64_t i = row; i < row + count; ++i) {
    const std::span<const float> hidden = session_.row(roots_.front(), i);
    hidden_.insert(hidden_.end(), hidden.begin(), hidden.end());
  }
  const int32_t begin = job.run - count;
  head_->show(&job, begin,
              tokens.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(count)), hidden_);
}

void Speculation::forget(const Job& job) {
  if (head_) head_->forget(&job);
}

SchedulerBytes Speculation::bytes() const {
  SchedulerBytes bytes{session_.cache_bytes(), session_.activation_bytes(), 0};
  const auto add = [&](const Session& session) {
    bytes.caches += session.cache_bytes();
    bytes.add_activations(session_.model(), session.model(), session.activation_bytes());
    bytes.drafts += session.model().weight_bytes();
  };
  if (head_) add(head_->session());
  if (model_) add(model_->session());
  return bytes;
}

}  // namespace veery

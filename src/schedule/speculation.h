// speculation.h: speculative decoding in a scheduler: which drafts the next run verifies.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/session.h"
#include "schedule/caches/cache_plan.h"
#include "schedule/drafts/draft.h"
#include "schedule/drafts/head_draft.h"
#include "schedule/drafts/model_draft.h"
#include "schedule/job.h"
#include "schedule/scheduler_options.h"

namespace veery {

/// The model that makes drafts besides prompt lookup: one of the two at most.
struct DraftModels {
  std::unique_ptr<Model> head;   ///< the MTP head of the target
  std::shared_ptr<Model> model;  ///< SchedulerOptions::draft_model
};
DraftModels draft_models(const Model& target, const SchedulerOptions& options);
/// Returns what plan_caches() has to know about them.
ScheduledModels scheduled_models(Model& target, const DraftModels& models);

/// Chooses the source and the length of each answer's draft by measured times and acceptance rates.
/// Answers do not depend on it. Not thread-safe.
class Speculation {
 public:
  /// `models` and `session`, which runs the target, must outlive it. `plan`: made for `models`.
  /// Throws as ModelDraft does.
  Speculation(Session& session, const DraftModels& models, const CachePlan& plan,
              const SchedulerOptions& options);

  /// Sets the drafts that the next parts of the jobs verify. Makes none while a prompt is computed:
  /// its rows use the time of the step.
  void draft(std::span<const std::unique_ptr<Job>> running);
  /// Records the time of a run of `rows` token rows without a prefill chunk.
  void record(int32_t rows, double seconds) { length_.record(rows, seconds); }
  /// Passes the hidden states of the last `count` accepted tokens of a job to the MTP head, if
  /// there is one; `row`: of the first of them in the last run.
  void show(const Job& job, int64_t row, int32_t count);
  /// Forgets what the MTP head knows of a job.
  void forget(const Job& job);
  /// The roots that every part of the target's runs must have.
  std::span<const RootId> roots() const { return roots_; }
  /// Returns the bytes of the target's session and of the models that make drafts.
  SchedulerBytes bytes() const;

 private:
  int32_t draft(Job& job, int32_t most, int32_t rows);
  template <typename Rate>
  std::span<const int32_t> cut(std::span<const int32_t> ids, int32_t rows, const Rate& rate) const;
  bool set(Job& job, std::span<const int32_t> ids, DraftSource source);
  int32_t request(Job& job, int32_t most, int32_t rows);
  bool propose();

  Session& session_;
  int32_t most_tokens_;
  bool always_;
  DraftLength length_;
  std::unique_ptr<HeadDraft> head_;
  std::unique_ptr<ModelDraft> model_;
  std::vector<RootId> roots_;    // that the MTP head reads, if there is one
  DraftMaker* maker_ = nullptr;  // one of the two, if any
  std::vector<DraftRequest> requests_;
  std::vector<Job*> asked_;  // the job of each request
  std::vector<float> hidden_;
};

}  // namespace veery

// policy.h: which requests run, and which rows of which answers form the next run.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/session.h"
#include "schedule/batch.h"
#include "schedule/caches/sequences.h"
#include "schedule/commit.h"
#include "schedule/job.h"
#include "schedule/job_queue.h"
#include "schedule/prompt_rows.h"
#include "schedule/scheduler_counts.h"

namespace veery {

struct PolicyOptions {
  int32_t slots = 1;                   ///< answers that run at a time
  double longest_step = 0.1;           ///< SchedulerOptions::longest_step
  std::span<const RootId> roots = {};  ///< Speculation::roots()
};

/// Owns the waiting and the running jobs. Decides admission, preemption, the rows of each run and
/// the length of chained decodes. Not thread-safe. Everything that is passed to the constructor
/// must outlive it.
class Policy {
 public:
  Policy(Session& session, Sequences& sequences, Commit& commit, SchedulerCounts& counts,
         const PolicyOptions& options);

  /// Queues a job; ends it with an error if there is no memory for that.
  void enqueue(std::unique_ptr<Job> job);
  /// Begins waiting jobs, in fair order, as far as there are slots or a running job gives way.
  void admit();
  /// Fills the batch with one part per decoding answer and, in the order in which the requests were
  /// begun, prefill chunks for the rows that are left. Makes room for it in the caches. Returns
  /// false if nothing is to be run.
  bool compose(Batch& batch);
  /// Whether the device is to decode several tokens of each answer in one submission; sets
  /// Batch::chain then. Requires a composed batch and a model on a device.
  bool compose_chain(Batch& batch);
  /// After Commit::apply(): charges users for the tokens of the batch, and removes the jobs that
  /// have ended.
  void settle(const Batch& batch);
  /// Records the time of a batch, which determines the sizes of later ones.
  void record(const Batch& batch);

  /// Ends the jobs whose tickets were cancelled.
  void drop_cancelled();
  /// Ends all running jobs with an error.
  void fail_running(const std::exception_ptr& error);
  /// Cancels all jobs.
  void cancel_all();

  std::span<const std::unique_ptr<Job>> running() const { return running_; }
  int64_t waiting() const { return waiting_.size(); }
  bool idle() const { return running_.empty() && waiting_.empty(); }

 private:
  bool may_begin(Job& job) const;
  std::unique_ptr<Job> next_job();
  void begin(Job& job);
  void preempt(size_t victim, bool keep);
  void add_parts(Batch& batch) const;
  bool make_room(Pages::Lack lack);
  int32_t chain_tokens(const Batch& batch, int32_t most) const;
  bool limit_chain(Batch& batch, int32_t most) const;

  Session& session_;
  Sequences& sequences_;
  Commit& commit_;
  SchedulerCounts& counts_;
  PolicyOptions options_;
  JobQueue waiting_;
  std::vector<std::unique_ptr<Job>> running_;  // has memory for all slots: adding never throws
  PromptRows prompt_rows_;
  double seconds_per_step_ = 0;  // of the last decode step; 0: not measured yet
  /// Finished answers when the caches were last full: nothing is admitted until one more has ended,
  /// because it would be preempted again.
  std::optional<int64_t> full_at_;
};

}  // namespace veery

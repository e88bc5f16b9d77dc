// scheduler.h: continuous batching of many requests on one model (Yu et al., Orca, OSDI 2022).
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/session.h"
#include "schedule/batch.h"
#include "schedule/caches/cache_plan.h"
#include "schedule/caches/prefix_store.h"
#include "schedule/caches/sequences.h"
#include "schedule/commit.h"
#include "schedule/job.h"
#include "schedule/policy.h"
#include "schedule/scheduler_counts.h"
#include "schedule/scheduler_options.h"
#include "schedule/speculation.h"
#include "schedule/ticket.h"

namespace veery {

/// The queue is full (kLimit).
class QueueFull : public Error {
 public:
  using Error::Error;
};

/// Each step decodes one token of every running answer and, in the room that is left, a prefill
/// chunk: Speculation makes drafts, Policy composes the run, Commit applies its results. An answer
/// does not depend on other requests, on cached prefixes or on preemption. A thread of the
/// scheduler runs the model, which must have no other user and outlive it. Safe to use from several
/// threads.
class Scheduler {
 public:
  /// Throws as plan_caches(), ModelDraft and PrefixStore do.
  Scheduler(Model& model, const SchedulerOptions& options);
  /// Cancels all running and waiting requests.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues a request. Throws kInput for an empty prompt, an id outside of the vocabulary or an
  /// option out of range; kLimit, naming both numbers, if the prompt does not fit the context;
  /// QueueFull.
  std::shared_ptr<Ticket> submit(GenerateRequest request);

  /// Calls `use` between two steps, when nothing else runs the model, and returns after it; running
  /// answers wait meanwhile. Throws what `use` throws.
  void alone(const std::function<void(Model&)>& use);
  /// Call Sequences::save() and load() by alone().
  int32_t save(std::span<const int32_t> ids, std::string_view note, const std::string& path);
  SavedSequence load(const std::string& path);

  /// Waits until the prefix cache on disk has written all answers that are over.
  void flush_files();

  SchedulerCounts counts() const;
  const Model& model() const { return model_; }
  int32_t context() const { return session_.context(); }
  /// Returns the bytes that were allocated: those of plan_caches(). Not synchronised with runs:
  /// call it before the first request.
  SchedulerBytes bytes() const;
  size_t cache_bytes() const { return bytes().caches; }
  int32_t slots() const { return plan_.slots; }

 private:
  void loop();
  bool wait();
  void run_uses();
  void step();
  bool nothing_came();
  void publish();
  void check_choices(const GenerateRequest& request) const;

  Model& model_;
  SchedulerOptions options_;
  DraftModels draft_models_;
  CachePlan plan_;
  Session session_;
  std::unique_ptr<PrefixStore> store_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Job>> incoming_;
  std::deque<std::packaged_task<void()>> uses_;  // of alone()
  bool stop_ = false;
  bool woken_ = false;        // by the cancellation of a ticket
  uint64_t next_number_ = 1;  // Job::number
  int64_t queued_ = 0;        // requests that wait, here or in the policy
  SchedulerCounts counts_;    // published after each step

  // Used by the thread alone.
  std::deque<std::unique_ptr<Job>> fresh_;  // moved out of incoming_
  bool check_cancelled_ = false;            // a ticket was cancelled since the last step
  SchedulerCounts own_;
  Sequences sequences_;
  Speculation speculation_;
  Commit commit_;
  Policy policy_;
  Batch batch_;

  std::thread thread_;
};

}  // namespace veery

// scheduler.h: continuous batching of many requests on one model (Yu et al., Orca, OSDI 2022).
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/runner.h"
#include "schedule/caches/cache_plan.h"
#include "schedule/caches/prefix_store.h"
#include "schedule/head_draft.h"
#include "schedule/job.h"
#include "schedule/job_queue.h"
#include "schedule/latencies.h"
#include "schedule/model_draft.h"
#include "schedule/prompt_rows.h"
#include "schedule/sequences.h"
#include "schedule/ticket.h"

namespace veery {

/// Upper limits of options of the command line and the C API.
inline constexpr int32_t kMostSlots = 1024, kMostKept = 1024, kMostQueued = 1 << 20;

struct SchedulerOptions {
  int32_t slots = 8;     ///< answers that are generated at a time
  int32_t queue = 1024;  ///< the most waiting requests
  int32_t kept = 16;     ///< the most cached prefixes
  /// Positions of the caches, of all sequences together; 0: as many as fit into `cache_bytes`
  /// (cache_plan.h).
  int32_t positions = 0;
  size_t cache_bytes = size_t{4} << 30;
  /// Exceed `cache_bytes` if they are too few for one sequence of the whole context.
  bool at_least_one = true;
  size_t memory_bytes = 0;   ///< weights, caches, activations and drafts together; 0: no limit
  bool fewer_slots = false;  ///< if memory is too small for `slots`, reduce them
  /// The target for the longest seconds of a run with a prefill chunk while answers decode, and of
  /// a chained decode.
  double longest_step = 0.1;
  /// The most tokens of a draft (draft.h), 0 to kMostDrafted. Shorter drafts are made if longer
  /// ones would cost more time than they save.
  int32_t draft_tokens = kMostDrafted;
  bool always_draft = false;             ///< make drafts of full length (tests)
  PrefixStoreOptions prefix_store = {};  ///< the prefix cache on disk (prefix_store.h)
  /// Makes drafts besides prompt lookup; must have no other user. nullptr: the MTP head of the
  /// model, if it has one.
  std::shared_ptr<Model> draft_model;
};

/// The queue is full (kLimit).
class QueueFull : public Error {
 public:
  using Error::Error;
};

struct SchedulerCounts {
  int64_t waiting = 0, running = 0, kept = 0, used_pages = 0;
  double cache_use = 0;  ///< share of the pages in use, 0 to 1
  int64_t requests = 0, preempted = 0, steps = 0;
  /// Answers that ended by themselves, at a length limit, by cancellation, by an error.
  int64_t stopped = 0, cut = 0, cancelled = 0, failed = 0;
  int64_t prompt_tokens = 0, reused_tokens = 0, made_tokens = 0;
  int64_t drafted_tokens = 0, accepted_tokens = 0;
  int64_t chained_steps = 0;  ///< steps that were part of a chained decode
  double busy_seconds = 0;    ///< time of all steps
  PrefixCounts disk;          ///< of the prefix cache on disk
  Latencies latencies;

  int64_t finished() const { return stopped + cut + cancelled + failed; }
};

/// Each step decodes one token of every running answer and, in the room that is left, a prefill
/// chunk. An answer does not depend on other requests, on cached prefixes or on preemption. A
/// thread of the scheduler runs the model, which must have no other user and outlive it. Safe to
/// use from several threads.
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
  int32_t context() const { return runner_.context(); }
  /// Returns the bytes that were allocated: those of plan_caches().
  SchedulerBytes bytes() const;
  size_t cache_bytes() const { return bytes().caches; }
  int32_t slots() const { return plan_.slots; }

 private:
  using Jobs = std::vector<std::unique_ptr<Job>>;

  void loop();
  bool wait();
  void run_uses();
  void drop_cancelled();
  void admit();
  bool may_begin(Job& job) const;
  std::unique_ptr<Job> next_job();
  void preempt(std::unique_ptr<Job>& job, bool keep);
  void count_tokens(Job& job, double now);
  void begin(Job& job);
  void make_drafts();
  bool propose();
  bool set_draft(Job& job, std::span<const int32_t> ids, DraftSource source);
  int32_t draft(Job& job, int32_t most, int32_t rows);
  void step();
  bool make_parts();
  bool make_room();
  void go_back(Job& job, int32_t position);
  void check_choices(const GenerateRequest& request) const;
  bool make_chain();
  int32_t chain_tokens(int32_t most) const;
  int32_t run_chain();
  void choose();
  void run_parts();
  void settle_part(Job& job, const RunPart& part, double chosen, int64_t first_row);
  void show_head(const Job& job, int64_t row, int32_t count);
  void end(Job& job, std::exception_ptr error = {});
  void fail_all(const std::exception_ptr& error);
  void publish();

  Model& model_;
  SchedulerOptions options_;
  std::unique_ptr<Model> head_model_;  ///< of the MTP head
  CachePlan plan_;
  Runner runner_;
  std::unique_ptr<PrefixStore> store_;
  Sequences sequences_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Job>> incoming_;
  std::deque<std::packaged_task<void()>> uses_;  // of alone()
  bool stop_ = false;
  bool woken_ = false;        // by the cancellation of a ticket
  uint64_t next_number_ = 1;  // Job::number
  int64_t queued_ = 0;        // waiting_ and incoming_
  SchedulerCounts counts_;

  // Used by the thread alone.
  std::deque<std::unique_ptr<Job>> fresh_;  // moved out of incoming_
  bool check_cancelled_ = false;            // a ticket was cancelled since drop_cancelled()
  JobQueue waiting_;
  Jobs running_;  // has memory for all slots, so that adding to it never throws
  std::vector<Job*> in_step_;
  std::vector<RunPart> parts_;
  std::vector<int32_t> first_outputs_;
  std::vector<ChainRow> chain_rows_;
  PromptRows prompt_rows_;
  double seconds_per_step_ = 0;
  DraftLength draft_length_;
  std::unique_ptr<HeadDraft> head_draft_;
  std::unique_ptr<ModelDraft> model_draft_;
  std::vector<RootId> head_roots_;  // of runs, if the MTP head makes drafts
  DraftMaker* maker_ = nullptr;     // one of the two, if any
  std::vector<float> hidden_;
  std::vector<DraftRequest> draft_requests_;
  std::vector<Job*> asked_;
  bool full_ = false;  // the caches were full, and no answer has ended since
  SchedulerCounts own_;

  std::thread thread_;
};

}  // namespace veery

// commit.h: how the results of a run change answers, and how answers begin, pause and end.
#pragma once
#include <cstdint>
#include <exception>
#include <vector>

#include "engine/session.h"
#include "schedule/batch.h"
#include "schedule/caches/sequences.h"
#include "schedule/job.h"
#include "schedule/scheduler_counts.h"
#include "schedule/speculation.h"

namespace veery {

/// Owns the transitions of a job: its sequence opens, grows, goes back and closes here alone.
/// Counts tokens, ends and latencies. Not thread-safe. Everything that is passed to the constructor
/// must outlive it.
class Commit {
 public:
  Commit(Session& session, Sequences& sequences, Speculation& speculation, SchedulerCounts& counts)
      : session_(session), sequences_(sequences), speculation_(speculation), counts_(counts) {}

  /// Opens a sequence for the job with as many of its tokens as the prefix caches hold. Throws as
  /// Sequences::take() does.
  void open(Job& job);
  /// After the run of a batch: chooses tokens, accepts drafts, delivers text and ends answers that
  /// are over. An exception belongs to one job alone and ends its answer. The sequence of a job
  /// that has ended is -1.
  void apply(Batch& batch);
  /// Takes the sequence from a job, which has to run all of its tokens again. `keep`: the sequence
  /// stays as a cached prefix.
  void suspend(Job& job, bool keep);
  /// Ends an answer; `error`: why it failed, null if it did not. Does nothing if it has ended. Does
  /// not throw.
  void end(Job& job, std::exception_ptr error = {});

 private:
  void take_chains(Batch& batch);
  void choose(const Batch& batch);
  int64_t apply_part(Job& job, const RunPart& part, double chosen, int64_t first_row);
  void go_back(Job& job, int32_t position);
  int64_t count_tokens(Job& job, double now);

  Session& session_;
  Sequences& sequences_;
  Speculation& speculation_;
  SchedulerCounts& counts_;
  std::vector<int32_t> first_outputs_;  // of each part of a batch
};

}  // namespace veery

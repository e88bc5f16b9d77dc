// scheduler_counts.h: the counters and gauges of a Scheduler.
#pragma once
#include <cstdint>

#include "schedule/caches/prefix_store.h"
#include "schedule/latencies.h"

namespace veery {

struct SchedulerCounts {
  int64_t waiting = 0, running = 0, used_pages = 0;
  int64_t kept = 0;      ///< cached pages that no answer uses
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

}  // namespace veery

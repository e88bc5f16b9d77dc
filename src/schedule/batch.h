// batch.h: what one run of a scheduler evaluates, and for which jobs.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/session.h"
#include "schedule/job.h"

namespace veery {

/// Policy composes it, the session evaluates its parts, Commit applies the results to its jobs.
struct Batch {
  std::vector<RunPart> parts;
  std::vector<Job*> jobs;       ///< [part]
  std::vector<ChainRow> chain;  ///< [part], if `chained`
  std::vector<int64_t> made;    ///< [part]: tokens that the run added to the answer
  bool prefills = false;        ///< at least one part is a prefill chunk
  bool chained = false;         ///< the run is a chained decode
  bool planned = false;         ///< the run made a plan, so its time says nothing about others
  int32_t steps = 1;            ///< of a chained decode; else 1
  double seconds = 0;           ///< of the run and of applying its results

  void clear();
  /// Adds the next part of a job, up to `most` tokens. Returns the number of its tokens.
  int32_t add(Job& job, int32_t most);
  /// Returns the token rows that each step evaluated.
  int32_t rows() const;
};

}  // namespace veery

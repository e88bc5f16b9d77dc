// cache_plan.h: how a scheduler divides the memory that it may take: slots, kept sequences,
// positions, and the bytes of all of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "engine/runner_sizes.h"

namespace veery {

/// What a scheduler asks for; SchedulerOptions has the same fields.
struct CacheOptions {
  int32_t slots = 0, kept = 0;
  int32_t positions = 0;
  int32_t draft_tokens = 0;
  size_t cache_bytes = 0, memory_bytes = 0;
  bool at_least_one = false, fewer_slots = false;
};

/// Bytes that a scheduler takes beside the weights of its model.
struct SchedulerBytes {
  size_t caches = 0;       ///< KV caches and recurrent states, those of drafts included
  size_t activations = 0;  ///< workspaces, those of drafts included
  size_t drafts = 0;       ///< weights of a draft model, or of a layer that drafts
  size_t total() const { return caches + activations + drafts; }
};

struct CachePlan {
  int32_t slots = 0;  ///< answers at a time
  int32_t kept = 0;   ///< sequences kept beside them
  RunnerOptions runner, draft_runner;
  SchedulerBytes bytes;
};

/// Not even one sequence of the context has room.
class CachesTooSmall : public Error {
 public:
  using Error::Error;
};

/// Models that a scheduler runs.
struct ScheduledModels {
  Model& model;
  std::string also;        ///< RunnerOptions::also of its runner
  Model* draft = nullptr;  ///< what makes drafts, nullptr: no model does
  /// Options of the runner of that, for so many slots.
  std::function<RunnerOptions(int32_t slots)> draft_options = {};
};

/// Divides CacheOptions::cache_bytes and memory_bytes: as many kept sequences, snapshots and
/// undone states as leave a quarter of the wanted positions, then as many positions as fit. The
/// options of the runners are what the memory is planned with and allocated by. Throws
/// CachesTooSmall.
CachePlan plan_caches(const ScheduledModels& models, const CacheOptions& options);

}  // namespace veery

// memory_plan.h: the memory that a served model takes, known before it is loaded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model.h"
#include "schedule/scheduler.h"

namespace veery::serve {

/// How one model of a server is to be loaded.
struct ModelSource {
  std::string id, path;
  LoadOptions load;  ///< without a progress
  SchedulerOptions scheduler;
  bool pinned = false;  ///< it stays once it is loaded
};

/// Bytes of a served model: weights as they are in memory (those that stay in the mapped file
/// apart), KV caches and recurrent states, activations, weights that only drafts need. What else
/// the program needs (tokenizer, tables, requests) is not among them.
struct ModelBytes {
  size_t weights = 0, caches = 0, activations = 0, drafts = 0;
  size_t total() const { return weights + caches + activations + drafts; }
  bool operator==(const ModelBytes&) const = default;
};

struct MemoryPlan {
  ModelBytes bytes;
  int32_t context = 0;  ///< positions that an answer and its prompt may have
  int32_t slots = 0;    ///< answers at a time; 0: the model makes no texts
  /// What was reduced because memory is short; empty: nothing.
  std::string note;
};

/// What the model takes with these options. Constructs it as it is loaded, but with layouts in
/// place of weights, so that planned and allotted bytes have one source. Throws as ServedModel
/// does.
MemoryPlan plan_memory(const ModelSource& source);

/// The same within `memory` bytes (0: only SchedulerOptions::cache_bytes counts), which `source`
/// keeps to from then on. Reduces what the user left open: slots (SchedulerOptions::fewer_slots),
/// then the context (LoadOptions::context 0). Throws CachesTooSmall, naming needed and given bytes
/// and what would fit, where that is not enough.
MemoryPlan fit_memory(ModelSource& source, size_t memory);

}  // namespace veery::serve

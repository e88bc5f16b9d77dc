// memory_plan.h: computes the memory of a served model before it is loaded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model.h"
#include "schedule/scheduler.h"

namespace veery::serve {

/// A model of a server and the options to load it with.
struct ModelSource {
  std::string id, path;
  LoadOptions load;  ///< without a progress callback
  SchedulerOptions scheduler;
  bool pinned = false;  ///< never unloaded
};

/// Bytes of a served model: weights in memory (without those that stay in the mapped file), KV
/// caches and recurrent states, activations, weights that only drafts need. Does not include the
/// rest of the program (tokenizer, tables, requests).
struct ModelBytes {
  size_t weights = 0, caches = 0;
  ActivationBytes activations;
  size_t drafts = 0;
  size_t total() const { return weights + caches + activations.total() + drafts; }
  /// Adds a model that shares the executor, and thus the arenas.
  void add(const ModelBytes& other) {
    weights += other.weights;
    caches += other.caches;
    activations.add(other.activations);
    drafts += other.drafts;
  }
  bool operator==(const ModelBytes&) const = default;
};

struct MemoryPlan {
  ModelBytes bytes;
  int32_t context = 0;  ///< positions of a prompt and its answer, at most
  int32_t slots = 0;    ///< answers at a time; 0: the model generates no text
  std::string note;     ///< what was reduced because memory is short; empty: nothing
};

/// Returns the memory of the model with these options. Constructs it like a loaded model, but with
/// layouts instead of weights, so that planned and allocated bytes have one source. Throws as
/// ServedModel does.
MemoryPlan plan_memory(const ModelSource& source);

/// Fits the model into `memory` bytes (0: only SchedulerOptions::cache_bytes limits it) and changes
/// `source` accordingly. Reduces what the user left open: the slots
/// (SchedulerOptions::fewer_slots), then the context (LoadOptions::context 0). Throws
/// CachesTooSmall, naming needed and given bytes and what would fit, if that is not enough.
MemoryPlan fit_memory(ModelSource& source, size_t memory);

}  // namespace veery::serve

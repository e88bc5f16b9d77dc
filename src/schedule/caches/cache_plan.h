// cache_plan.h: divides the memory budget of a scheduler among slots, cached prefixes and
// positions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/session_sizes.h"

namespace veery {

/// The budget and the wanted numbers; SchedulerOptions documents the fields.
struct CacheOptions {
  int32_t slots = 0, kept = 0;
  int32_t positions = 0;
  int32_t draft_tokens = 0;
  size_t cache_bytes = 0, memory_bytes = 0;
  bool at_least_one = false, fewer_slots = false;
};

/// Bytes that a scheduler allocates besides the weights of its model.
struct SchedulerBytes {
  size_t caches = 0;            ///< KV caches and recurrent states, including those of drafts
  ActivationBytes activations;  ///< including those of drafts
  size_t drafts = 0;            ///< weights of the draft model or of the MTP head
  size_t total() const { return caches + activations.total() + drafts; }
  /// Adds the activations of a draft model.
  void add_activations(const Model& model, const Model& draft, const ActivationBytes& bytes) {
    if (&model.executor() == &draft.executor())
      activations.add(bytes);
    else
      activations.add_separate(bytes);
  }
};

struct CachePlan {
  int32_t slots = 0;  ///< answers at a time
  int32_t kept = 0;   ///< sequences besides them, for the windows and states of cached prefixes
  SessionOptions session, draft_session;
  SchedulerBytes bytes;
};

/// The budget is too small even for one sequence of the whole context.
class CachesTooSmall : public Error {
 public:
  using Error::Error;
};

/// The models that a scheduler runs.
struct ScheduledModels {
  Model& model;
  std::vector<std::string> roots = {};  ///< SessionOptions::roots of its session
  Model* draft = nullptr;               ///< the model that makes drafts; nullptr: none
  /// Returns the options of the draft model's session.
  std::function<SessionOptions(int32_t slots)> draft_options = {};
};

/// Divides CacheOptions::cache_bytes and memory_bytes: the most `kept` sequences, snapshots and
/// states for undoing drafts that leave room for a quarter of the wanted positions, then the most
/// positions that fit. The session options in the plan are those that the memory is later allocated
/// by. Throws CachesTooSmall, naming needed and given bytes.
CachePlan plan_caches(const ScheduledModels& models, const CacheOptions& options);

}  // namespace veery

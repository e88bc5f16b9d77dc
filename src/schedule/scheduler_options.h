// scheduler_options.h: the options of a Scheduler.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/model.h"
#include "schedule/caches/prefix_store.h"
#include "schedule/drafts/draft.h"

namespace veery {

/// Upper limits of options of the command line and the C API.
inline constexpr int32_t kMostSlots = 1024, kMostKept = 1024, kMostQueued = 1 << 20;

struct SchedulerOptions {
  int32_t slots = 8;     ///< answers that are generated at a time
  int32_t queue = 1024;  ///< the most waiting requests
  /// The prefix cache keeps pages of ended answers until their memory is needed. This is the number
  /// of sequences for whose sliding windows and recurrent states it has memory besides `slots`. 0:
  /// nothing of an answer stays cached after its end.
  int32_t kept = 16;
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

/// Throws kInput, naming the first option that is out of range.
void check(const SchedulerOptions& options);

}  // namespace veery

// top_k_params.h: parameters of the kernels in top_k.h.
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

struct ChainState;
struct ChainLists;

/// Several thread blocks share a row. `groups` to `arrived` are scratch memory of each row.
struct TopKParams {
  Run run;
  Matrix x, values, indices, mass;  ///< indices: i32
  int32_t count;
  VEERY_DEVICE uint64_t* groups;   ///< [TopKSmem::kThreads] largest key of each group of logits
  VEERY_DEVICE uint64_t* found;    ///< [TopKSmem::kMaxSorted] candidates for the top k
  VEERY_DEVICE Float64* sums;      ///< [pieces] softmax mass
  VEERY_DEVICE uint32_t* arrived;  ///< [2] entries of `found`, thread blocks; 0 between runs
  const VEERY_DEVICE ChainState* states;  ///< of a chain that samples, else nullptr
  const VEERY_DEVICE ChainLists* lists;   ///< biases and penalties, applied to the logits first
  /// Token masks of constrained decoding (TokenMaskRows), mask_words each: rejected tokens become
  /// NaN. nullptr: no masks.
  const VEERY_DEVICE uint32_t* masks;
  int32_t mask_words;
};

}  // namespace veery::gpu

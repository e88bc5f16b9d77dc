// top_k_arguments.h: what the kernels of top_k.h are given.
#pragma once
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

struct ChainState;
struct ChainLists;

/// The blocks of a row share its pieces. Memory that they have in common, of each row:
struct TopKArguments {
  Run run;
  Matrix x, values, indices, mass;  ///< indices: i32
  int32_t count;
  VEERY_DEVICE uint64_t* groups;   ///< [TopKPlaces::kThreads] the largest of each group of numbers
  VEERY_DEVICE uint64_t* found;    ///< [TopKPlaces::kMost] what may be among the largest
  VEERY_DEVICE Float64* sums;      ///< [pieces]
  VEERY_DEVICE uint32_t* arrived;  ///< [2] of `found` and of blocks; 0 when a run begins
  const VEERY_DEVICE ChainState* states;  ///< of a chain whose rows draw, else nullptr
  const VEERY_DEVICE ChainLists* lists;   ///< what changes logits before
  /// Rows of TokenMaskRows, mask_words each: what may not come becomes NaN; nullptr: there are none
  const VEERY_DEVICE uint32_t* masks;
  int32_t mask_words;
};
struct TopKPlaces {
  VEERY_STATIC int kThreads = 1024;
  VEERY_STATIC int kMost = 2 * kThreads;  ///< of a row that are sorted
  VEERY_STATIC int kPiece = 1024;         ///< of softmax_mass()
  VEERY_STATIC int kMostBlocks = 32;      ///< of a row; a power of two
  // What lies where in a block's memory.
  VEERY_STATIC int kKeys = 0, kLast = kMost * 8, kLargest = kLast + 16;
  VEERY_STATIC int kBytes = kLargest + 8 * kThreads / 32;
  static VEERY_GPU_HOST constexpr int pieces(int cols) { return (cols + kPiece - 1) / kPiece; }
};

}  // namespace veery::gpu

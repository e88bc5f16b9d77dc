// chain_params.h: parameters of chained decode: sampling on the device, several steps per
// submission.
#pragma once
#include "kernels/draw_settings.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

VEERY_CONSTANT int kMaxRecent = 1024, kMaxBiases = 64, kMaxStops = 16;
VEERY_CONSTANT int kMaxChained = 128;  ///< tokens per sequence and submission

/// veery::ChainRow and its progress.
struct ChainState {
  uint64_t seed, position;
  DrawSettings settings;
  Penalties penalties;
  int32_t left;  ///< tokens still to be made; 0: the row has ended
  int32_t made;
  int32_t recent, window, oldest;  ///< `recent` entries of ChainLists::recent are in use
  int32_t biases, stops;
  int32_t stop[kMaxStops];
};
struct ChainLists {
  int32_t recent[kMaxRecent];  ///< a ring buffer once it has `window` entries
  TokenBias biases[kMaxBiases];
};
/// The tokens that a row has made.
struct ChainTokens {
  int32_t count, tokens[kMaxChained];
};

/// chain_advance(): samples the next tokens and writes the inputs of the next step.
struct ChainAdvanceParams {
  Run run;
  VEERY_DEVICE int32_t *tokens, *positions;  ///< inputs to be overwritten; nullptr: not declared
  VEERY_DEVICE RunSpan* spans;               ///< of `run`, to be overwritten
  VEERY_DEVICE ChainState* states;
  VEERY_DEVICE ChainLists* lists;  ///< nullptr: all rows are greedy
  Matrix values, mass;             ///< of top_k(), if there are lists
  Matrix best;                     ///< i32: indices of top_k(); if all are greedy, the argmax
  VEERY_DEVICE ChainTokens* chosen;
  VEERY_DEVICE uint32_t* again;  ///< set to 1 if a row goes on; or nullptr
};

}  // namespace veery::gpu

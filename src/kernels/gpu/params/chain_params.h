// chain_arguments.h: what the kernels of chain.h are given.
#pragma once
#include "kernels/draw_settings.h"
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

VEERY_CONSTANT int kMostRecent = 1024, kMostBiases = 64, kMostStops = 16;
VEERY_CONSTANT int kMostChained = 128;  ///< tokens of a row

/// veery::ChainRow, and how far it is.
struct ChainState {
  uint64_t seed, position;
  DrawSettings settings;
  Penalties penalties;
  int32_t left;  ///< tokens that it still makes; 0: it has ended
  int32_t made;
  int32_t recent, window, oldest;  ///< `recent` of ChainLists::recent are in use
  int32_t biases, stops;
  int32_t stop[kMostStops];
};
struct ChainLists {
  int32_t recent[kMostRecent];  ///< a ring, once there are as many as the window has
  TokenBias biases[kMostBiases];
};
/// What a row has made.
struct ChainTokens {
  int32_t count, tokens[kMostChained];
};

/// Where the slots of a run lie, which the next step of a chain is to find changed.
struct AdvanceArguments {
  Run run;
  VEERY_DEVICE int32_t *tokens, *positions;
  VEERY_DEVICE RunSpan* spans;
  VEERY_DEVICE ChainState* states;
  VEERY_DEVICE ChainLists* lists;  ///< nullptr: all rows are greedy
  Matrix values, mass;             ///< of top_k(), where there are lists
  Matrix best;                     ///< i32: its indices; without lists the most probable token
  VEERY_DEVICE ChainTokens* chosen;
  VEERY_DEVICE uint32_t* again;  ///< where not nullptr: becomes 1 where a row is to go on
};
/// What lies where in the memory of a block of advance().
struct AdvancePlaces {
  VEERY_STATIC int kThreads = 128;
  VEERY_STATIC int kCount = 0, kWeights = 16;
  static VEERY_GPU_HOST constexpr int order(int count) { return kWeights + 8 * count; }
  static VEERY_GPU_HOST constexpr int bytes(int count) { return order(count) + 4 * count; }
};

struct LoopArguments {
  uint64_t condition;  ///< what set_condition() is given
  VEERY_DEVICE uint32_t* again;
};

}  // namespace veery::gpu

// chain_row.h: sampling parameters of one sequence in a chained decode.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/draw.h"

namespace veery {

/// How the device samples the tokens of one sequence, and when it stops.
struct ChainRow {
  static constexpr int32_t kMostRecent = 1024, kMostBiases = 64, kMostStops = 16;

  int32_t most = 0;  ///< the most tokens to produce; 1 or more
  DrawSettings settings{};
  uint64_t seed = 0, position = 0;  ///< of the random number for its first token
  Penalties penalties{};
  /// The tokens to penalise, oldest first. New tokens are appended.
  std::span<const int32_t> recent;
  int32_t window = 0;  ///< only the last `window` <= kMostRecent count; 0: no penalties
  std::span<const TokenBias> biases;  ///< added to logits; at most kMostBiases
  std::span<const int32_t> stops;     ///< tokens that end the sequence; at most kMostStops

  /// Whether it takes the argmax of the unchanged logits.
  bool greedy() const { return settings.temperature == 0 && window == 0 && biases.empty(); }
};

}  // namespace veery

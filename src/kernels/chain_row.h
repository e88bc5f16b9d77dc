// chain_row.h: what a device is told of a row whose next tokens it makes by itself.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/draw.h"

namespace veery {

/// What one row of a chain is to do.
struct ChainRow {
  static constexpr int32_t kMostRecent = 1024, kMostBiases = 64, kMostStops = 16;

  int32_t most = 0;  ///< tokens that it makes at most; 1 or more
  DrawSettings settings{};
  uint64_t seed = 0, position = 0;  ///< of the random number of its first token
  Penalties penalties{};
  /// Tokens that penalties are for, oldest first. Those that are made join them; of more than
  /// `window`, at most kMostRecent, the oldest leave. 0: there are no penalties.
  std::span<const int32_t> recent;
  int32_t window = 0;
  std::span<const TokenBias> biases;  ///< added to logits; at most kMostBiases
  std::span<const int32_t> stops;     ///< it ends behind one of these; at most kMostStops

  /// Takes what is most probable, and nothing more.
  bool greedy() const { return settings.temperature == 0 && window == 0 && biases.empty(); }
};

}  // namespace veery

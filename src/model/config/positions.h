// positions.h: hyperparameters of position encodings.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/ops/position.h"

namespace veery {

/// Position encoding: RoPE, a table added to the embedding, ALiBi biases on attention scores, or
/// none.
enum class Positions : uint8_t { kRope, kTable, kAlibi, kNone };

struct PositionConfig {
  Positions kind = Positions::kRope;
  AnglesAttr rope;             ///< of layers with global attention
  AnglesAttr local_rope;       ///< of layers with a sliding window
  std::vector<double> thetas;  ///< RoPE bases by layer, if they differ; 0: no RoPE
  /// RoPE pairs adjacent elements. Depends on the architecture and the container.
  bool interleaved = false;
  float alibi = 0;              ///< AttendAttr::alibi
  std::vector<bool> unrotated;  ///< by layer: no RoPE (NoPE); empty: all layers have RoPE
  /// Temperature of queries in NoPE layers: 1 + unrotated_temperature * ln(1 + floor((p + 1) /
  /// unrotated_period)) at position p; period 0: none.
  double unrotated_temperature = 0;
  int32_t unrotated_period = 0;
};

}  // namespace veery

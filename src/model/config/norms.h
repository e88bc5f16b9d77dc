// norms.h: hyperparameters of norms.
#pragma once
#include <cstdint>

namespace veery {

/// kPlainLayer: layer norm without weights.
enum class Norm : uint8_t { kRms, kLayer, kPlainLayer };
/// QK norm. kShared: per head, one weight for all heads. kOwn: per head, a weight for each head.
/// kTogether: over all heads at once. kUnweighted: per head without a weight, only in layers with
/// RoPE.
enum class QkNorm : uint8_t { kShared, kOwn, kTogether, kUnweighted };

struct NormConfig {
  Norm kind = Norm::kRms;
  float eps = 1e-5F;
  QkNorm qk = QkNorm::kShared;
  bool qk_after_rope = false;  ///< QK norm after RoPE instead of before
};

}  // namespace veery

// chain_advance_smem.h: shared memory of chain_advance().
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Offsets in bytes.
struct ChainAdvanceSmem {
  VEERY_STATIC int kThreads = 128;
  VEERY_STATIC int kCount = 0, kWeights = 16;
  static VEERY_GPU_HOST constexpr int order(int count) { return kWeights + 8 * count; }
  static VEERY_GPU_HOST constexpr int bytes(int count) { return order(count) + 4 * count; }
};

}  // namespace veery::gpu

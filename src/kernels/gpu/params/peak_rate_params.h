// peak_rate_params.h: parameters of the kernels that measure peak rates.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Bytes to be read; the size is a multiple of 16.
struct alignas(16) MemoryRange {
  const VEERY_DEVICE uint8_t* data;
  int64_t size;
};
struct PeakReadParams {
  const VEERY_DEVICE MemoryRange* ranges;
  int32_t count;
  VEERY_DEVICE uint32_t* sink;  ///< makes the compiler keep the loop
};

enum class Math : int32_t { kF32, kBF16, kInt8 };
struct PeakMathParams {
  Math math;
  int32_t iterations;
  VEERY_DEVICE uint32_t* sink;  ///< makes the compiler keep the loop
};
/// Operations of a warp per iteration; a multiply-add counts as two.
VEERY_GPU_HOST constexpr int operations_per_iteration(Math math) {
  constexpr int kChains = 8, kTiles = 4;
  return math == Math::kF32 ? 2 * 32 * kChains
                            : 2 * 16 * 8 * (math == Math::kBF16 ? 16 : 32) * kTiles;
}

}  // namespace veery::gpu

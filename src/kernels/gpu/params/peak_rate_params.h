// limit_arguments.h: what kernels are given that find out what a device does at best.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Some bytes, a multiple of 16.
struct alignas(16) ReadPiece {
  const VEERY_DEVICE uint8_t* data;
  int64_t size;
};
struct ReadLimitArguments {
  const VEERY_DEVICE ReadPiece* pieces;
  int32_t count;
  VEERY_DEVICE uint32_t* kept;  ///< nothing that is looked at
};

enum class Math : int32_t { kF32, kBF16, kInt8 };
struct MathLimitArguments {
  Math math;
  int32_t turns;
  VEERY_DEVICE uint32_t* kept;
};
/// Operations of a warp in a turn; a multiply-add is two.
VEERY_GPU_HOST constexpr int operations_of(Math math) {
  constexpr int kChains = 8, kTiles = 4;
  return math == Math::kF32 ? 2 * 32 * kChains
                            : 2 * 16 * 8 * (math == Math::kBF16 ? 16 : 32) * kTiles;
}

}  // namespace veery::gpu

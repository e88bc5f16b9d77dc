// gemm_simdgroup_smem.h: tile shape and threadgroup memory of gemm_simdgroup() (Metal).
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// A threadgroup has one panel of 16 outputs per warp, and kRows token rows, one per lane in the
/// epilogue. Codes are stored as f16 in squares of 8 x 8, row after row; the squares of 32 columns
/// follow each other:
///   x      [row groups of 8][kBlocks of 32 columns][4 squares], a square has a row per column of x
/// and then for each warp
///   codes  [upper and lower 8 rows of the panel][4 squares], a square has a row per weight column
///   sums   f32 [16 outputs][kRows]
struct GemmSimdgroupSmem {
  VEERY_STATIC int kWarps = 4, kThreads = 32 * kWarps;
  VEERY_STATIC int kRows = 32, kGroups = kRows / 8;
  VEERY_STATIC int kBlocks = 2;   ///< of 32 columns of x per step
  VEERY_STATIC int kSquare = 64;  ///< f16 elements
  VEERY_STATIC int kSquares = 4;  ///< of 8 rows and 32 columns
  VEERY_STATIC int kCodes =
      kGroups * kBlocks * kSquares * kSquare * 2;       ///< offset of the first warp
  VEERY_STATIC int kSums = 2 * kSquares * kSquare * 2;  ///< offset in a warp's part
  VEERY_STATIC int kWarpBytes = kSums + 16 * kRows * 4;
  VEERY_STATIC int kBytes = kCodes + kWarps * kWarpBytes;
};

}  // namespace veery::gpu

// matrix_places.h: what linear_matrices() has in the memory of a block of threads.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// A block of threads has a panel of 16 outputs a warp, and kRows rows of x, which a lane each
/// adds up. Codes lie as halves in squares of 8 x 8, row after row; for each 32 columns those of
/// columns 0 to 7, 8 to 15, and so on follow each other:
///   x      [groups of 8 rows][kBlocks of 32 columns][4 squares], row by column of x
/// and then for each warp
///   codes  [8 upper rows, 8 lower rows of the panel][4 squares], row by column of the weight
///   sums   f32 [16 outputs][kRows]
struct MatrixPlan {
  VEERY_STATIC int kWarps = 4, kThreads = 32 * kWarps;
  VEERY_STATIC int kRows = 32, kGroups = kRows / 8;
  VEERY_STATIC int kBlocks = 2;   ///< of 32 columns, of x at a time
  VEERY_STATIC int kSquare = 64;  ///< halves
  VEERY_STATIC int kSquares = 4;  ///< of 8 rows and 32 columns
  VEERY_STATIC int kCodes =
      kGroups * kBlocks * kSquares * kSquare * 2;       ///< bytes: the first warp's
  VEERY_STATIC int kSums = 2 * kSquares * kSquare * 2;  ///< behind a warp's codes
  VEERY_STATIC int kWarpBytes = kSums + 16 * kRows * 4;
  VEERY_STATIC int kBytes = kCodes + kWarps * kWarpBytes;
};

}  // namespace veery::gpu

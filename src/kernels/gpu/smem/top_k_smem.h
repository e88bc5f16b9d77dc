// top_k_smem.h: work split and shared memory of the kernels in top_k.h.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

struct TopKSmem {
  VEERY_STATIC int kThreads = 1024;
  VEERY_STATIC int kMaxSorted = 2 * kThreads;  ///< candidates of a row that are sorted
  VEERY_STATIC int kPiece = 1024;              ///< columns of a piece of softmax_mass()
  VEERY_STATIC int kMaxBlocks = 32;            ///< thread blocks per row; a power of two
  // Offsets in bytes.
  VEERY_STATIC int kKeys = 0, kLast = kMaxSorted * 8, kLargest = kLast + 16;
  VEERY_STATIC int kBytes = kLargest + 8 * kThreads / 32;
  static VEERY_GPU_HOST constexpr int pieces(int cols) { return (cols + kPiece - 1) / kPiece; }
};

}  // namespace veery::gpu

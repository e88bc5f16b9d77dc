// shared_places.h: what products have in a block's memory beside weights and x.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Barriers that say whose turn it is (functions/linear/turns.h).
struct TurnPlaces {
  static constexpr int kSlots = 8;  ///< panels (or gates and panels) that are under way together
  /// More than others may be ahead of who waits for a turn, or behind, as a barrier tells only odd
  /// turns from even ones: as many as warps at least, which wait each for one of a slot at a time.
  static constexpr int kOfSlot = 16;
  static constexpr int kGates = 0, kOutliers = kSlots / 2, kFirst = kOutliers + 1;
  static constexpr int kCount = kFirst + kSlots * kOfSlot;
  static constexpr int kBytes = (kCount * 8 + 15) / 16 * 16;
};

/// Outliers of a tile's rows (functions/linear/tile_outliers.h): columns of products that are
/// computed together, and of some blocks a bit for each row.
struct OutlierPlaces {
  static constexpr int kBlocks = 128, kTogether = 32;
  static constexpr int kColumnBytes = 384;  // OutlierColumns
  int bits, any, bytes;
};
VEERY_GPU_HOST constexpr OutlierPlaces outlier_places(int rows) {
  const int bits = OutlierPlaces::kTogether * OutlierPlaces::kColumnBytes;
  const int any = bits + OutlierPlaces::kBlocks * rows / 8;
  return {bits, any, any + 16};
}

}  // namespace veery::gpu

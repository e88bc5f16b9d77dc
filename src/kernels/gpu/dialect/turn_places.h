// turn_places.h: how many barriers in a block's memory say whose turn it is
// (functions/linear/turns.h).
#pragma once

namespace veery::gpu {

struct TurnPlaces {
  static constexpr int kSlots = 8;  ///< panels (or gates and panels) that are under way together
  /// Of a slot: as many as warps at least. A warp waits for one turn of a slot at a time, so that
  /// no turn is waited for while its barrier, which tells only odd from even, is two ahead.
  static constexpr int kOfSlot = 16;
  static constexpr int kGates = kSlots * kOfSlot, kOutliers = kGates + kSlots / 2;
  static constexpr int kCount = kOutliers + 1;
  static constexpr int kBytes = (kCount * 8 + 15) / 16 * 16;
};

}  // namespace veery::gpu

// turn_places.h: how many barriers in a block's memory say whose turn it is
// (functions/linear/turns.h).
#pragma once

namespace veery::gpu {

/// kTurns: of a slot, more than others may be ahead of who waits for one, as a barrier tells only
/// odd turns from even ones.
template <int kTurns>
struct PlacesOfTurns {
  static constexpr int kSlots = 8;  ///< panels (or gates and panels) that are under way together
  static constexpr int kOfSlot = kTurns;
  static constexpr int kGates = kSlots * kOfSlot, kOutliers = kGates + kSlots / 2;
  static constexpr int kCount = kOutliers + 1;
  static constexpr int kBytes = (kCount * 8 + 15) / 16 * 16;
};
/// Where warps alone wait for turns, each for one of a slot at a time: as many as warps at least.
using TurnPlaces = PlacesOfTurns<16>;

}  // namespace veery::gpu

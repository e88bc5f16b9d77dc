// turns.h: how the warps of a block add to the sums of a panel one after the other.
#pragma once
#include "kernels/gpu/smem/linear_smem.h"
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// Turns of the slots of a block (RowItems): of panels, or of gates (even) and panels (odd). A warp
/// waits for the turn of its item, looks at what the item before left in the block's memory, and
/// passes the turn on, all lanes together: then each lane sees what those of the other warp wrote,
/// without a barrier of the warp, which takes half of the time of a flag that one lane sets.
class Turns {
  using Places = TurnPlaces;

 public:
  explicit VEERY_GPU Turns(uint8_t* at) : at_(reinterpret_cast<Mbarrier*>(at)) {}

  /// By the first `makers` warps, with a barrier of the block before the first turn. `slots`: of
  /// the block, `turns`: that each of them has in all. A warp makes one barrier after the other, so
  /// all make as many, and none that nobody would wait for.
  VEERY_GPU void make(int slots, int turns, int makers) const {
    for_used(slots, turns, makers, [](Mbarrier* own) { make_mbarrier(own); });
  }
  /// Until the turns of the slot before `turn`, counted from 0, have been passed on.
  VEERY_GPU void wait(int slot, int turn) const {
    if (turn > 0) wait_for_arrivals(of(slot, turn - 1), (turn - 1) / Places::kOfSlot);
  }
  VEERY_GPU void pass(int slot, int turn) const { arrive(of(slot, turn)); }

  /// That the product of a gate was looked at, by the warp that has that of the slot behind it.
  VEERY_GPU void pass_gate(int slot) const { arrive(at_ + Places::kGates + slot / 2); }
  /// Until `count` gates of the slot were looked at.
  VEERY_GPU void wait_for_gates(int slot, int count) const {
    if (count > 0) wait_for_arrivals(at_ + Places::kGates + slot / 2, count - 1);
  }

  /// That the outliers are known, which one warp finds.
  VEERY_GPU void pass_outliers() const { arrive(at_ + Places::kOutliers); }
  VEERY_GPU void wait_for_outliers() const { wait_for_arrivals(at_ + Places::kOutliers, 0); }

 private:
  template <typename Take>
  VEERY_GPU void for_used(int slots, int turns, int makers, const Take& take) const {
    if (warp() >= makers) return;
    const int width = slots < Places::kSlots ? slots : Places::kSlots;
    const int used = turns < Places::kOfSlot ? turns : Places::kOfSlot;
    for (int i = lane() * makers + warp(); i < Places::kFirst + width * used; i += makers * kWarp) {
      const int own = i - Places::kFirst;  // of those of turns
      take(own < 0 ? at_ + i : of(own / used, own % used));
    }
  }
  VEERY_GPU Mbarrier* of(int slot, int turn) const {
    return at_ + Places::kFirst + slot * Places::kOfSlot + turn % Places::kOfSlot;
  }

  Mbarrier* at_;
};

}  // namespace veery::gpu

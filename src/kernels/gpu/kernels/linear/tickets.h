// turns.h: how the warps of a block add to the sums of a panel one after the other.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/smem/tickets_smem.h"

namespace veery::gpu {

/// Turns of the slots of a block (TileIterator): of panels, or of gates (even) and panels (odd). A
/// warp waits for the turn of its item, looks at what the item before left in the block's memory,
/// and passes the turn on, all lanes together: then each lane sees what those of the other warp
/// wrote, without a barrier of the warp, which takes half of the time of a flag that one lane sets.
class Tickets {
  using Smem = TicketSmem;

 public:
  explicit VEERY_GPU Tickets(uint8_t* at) : barriers_(reinterpret_cast<Mbarrier*>(at)) {}

  /// By the first `makers` warps, with a barrier of the block before the first turn. `slots`: of
  /// the block, `turns`: that each of them has in all. A warp makes one barrier after the other, so
  /// all make as many, and none that nobody would wait for.
  VEERY_GPU void init(int slots, int tickets, int init_warps) const {
    for_used(slots, tickets, init_warps, [](Mbarrier* own) { init_mbarrier(own); });
  }
  /// Until the turns of the slot before `turn`, counted from 0, have been passed on.
  VEERY_GPU void wait(int slot, int ticket) const {
    if (ticket > 0) wait_for_phase(of(slot, ticket - 1), (ticket - 1) / Smem::kTicketsPerSlot);
  }
  VEERY_GPU void hand_over(int slot, int ticket) const { arrive(of(slot, ticket)); }

  /// That the product of a gate was looked at, by the warp that has that of the slot behind it.
  VEERY_GPU void release_gate(int slot) const { arrive(barriers_ + Smem::kGates + slot / 2); }
  /// Until `count` gates of the slot were looked at.
  VEERY_GPU void wait_for_gate_release(int slot, int count) const {
    if (count > 0) wait_for_phase(barriers_ + Smem::kGates + slot / 2, count - 1);
  }

  /// That the outliers are known, which one warp finds.
  VEERY_GPU void publish_outliers() const { arrive(barriers_ + Smem::kOutliers); }
  VEERY_GPU void wait_for_outliers() const { wait_for_phase(barriers_ + Smem::kOutliers, 0); }

 private:
  template <typename Take>
  VEERY_GPU void for_used(int slots, int tickets, int init_warps, const Take& take) const {
    if (warp() >= init_warps) return;
    const int width = slots < Smem::kSlots ? slots : Smem::kSlots;
    const int used = tickets < Smem::kTicketsPerSlot ? tickets : Smem::kTicketsPerSlot;
    for (int i = lane() * init_warps + warp(); i < Smem::kFirst + width * used;
         i += init_warps * kWarp) {
      const int own = i - Smem::kFirst;  // of those of turns
      take(own < 0 ? barriers_ + i : of(own / used, own % used));
    }
  }
  VEERY_GPU Mbarrier* of(int slot, int ticket) const {
    return barriers_ + Smem::kFirst + slot * Smem::kTicketsPerSlot + ticket % Smem::kTicketsPerSlot;
  }

  Mbarrier* barriers_;
};

}  // namespace veery::gpu

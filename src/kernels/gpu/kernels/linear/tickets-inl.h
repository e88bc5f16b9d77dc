// tickets-inl.h: ordered accumulation: the warps of a block add to the sums of a panel one after
// the other.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/smem/tickets_smem.h"

namespace veery::gpu {

/// Tickets of the slots of a block (TileIterator): of panels, or of gate (even) and up (odd)
/// panels. A warp waits for the ticket of its tile, reads the sums that the previous tile left in
/// shared memory, and hands the ticket over by an arrival of all its lanes. Because of that each
/// lane sees the writes of the other warp without a warp barrier. A flag set by one lane after such
/// a barrier took twice as long.
class Tickets {
  using Smem = TicketSmem;

 public:
  explicit VEERY_GPU Tickets(uint8_t* at) : barriers_(reinterpret_cast<Mbarrier*>(at)) {}

  /// The first `init_warps` warps initialise the mbarriers; a barrier of the block has to follow.
  /// `slots`: of the block, `tickets`: of each slot. A warp initialises its mbarriers one by one,
  /// so all warps get the same number, and unused ones are skipped.
  VEERY_GPU void init(int slots, int tickets, int init_warps) const {
    for_each_used(slots, tickets, init_warps, [](Mbarrier* own) { init_mbarrier(own); });
  }
  /// Initialises the barrier of meet(), by one thread.
  VEERY_GPU void init_meeting(int warps) const {
    init_mbarrier(barriers_ + Smem::kMeeting, warps * kWarp);
  }
  /// Returns when all warps have called leave() or meet(), once each.
  VEERY_GPU void meet() const {
    leave();
    wait_for_phase(barriers_ + Smem::kMeeting, 0);
  }
  VEERY_GPU void leave() const { arrive(barriers_ + Smem::kMeeting); }

  /// Waits until the tickets of the slot before `ticket`, counted from 0, have been handed over.
  VEERY_GPU void wait(int slot, int ticket) const {
    if (ticket > 0) wait_for_phase(of(slot, ticket - 1), (ticket - 1) / Smem::kTicketsPerSlot);
  }
  VEERY_GPU void pass_on(int slot, int ticket) const { arrive(of(slot, ticket)); }

  // Gates have barriers of their own, since the warps of an up panel may be far ahead of the
  // tickets of its gate. `slot`: of gate or up.

  /// Signals that the gate is complete.
  VEERY_GPU void publish_gate(int slot) const { arrive(barriers_ + Smem::kGates + slot / 2); }
  /// Waits until gate `panel` of the slot, counted from 0, is complete.
  VEERY_GPU void wait_for_gate(int slot, int panel) const {
    wait_for_phase(barriers_ + Smem::kGates + slot / 2, panel);
  }
  /// Signals that the gate has been read by the warp that finishes the up panel.
  VEERY_GPU void release_gate(int slot) const {
    arrive(barriers_ + Smem::kReleasedGates + slot / 2);
  }
  /// Waits until `count` gates of the slot have been read.
  VEERY_GPU void wait_for_gate_release(int slot, int count) const {
    if (count > 0) wait_for_phase(barriers_ + Smem::kReleasedGates + slot / 2, count - 1);
  }

  /// Signals that the outlier blocks are known, which one warp finds.
  VEERY_GPU void publish_outliers() const { arrive(barriers_ + Smem::kOutliers); }
  VEERY_GPU void wait_for_outliers() const { wait_for_phase(barriers_ + Smem::kOutliers, 0); }

 private:
  template <typename Take>
  VEERY_GPU void for_each_used(int slots, int tickets, int init_warps, const Take& take) const {
    if (warp() >= init_warps) return;
    const int width = slots < Smem::kSlots ? slots : Smem::kSlots;
    const int used = tickets < Smem::kTicketsPerSlot ? tickets : Smem::kTicketsPerSlot;
    for (int i = lane() * init_warps + warp(); i < Smem::kFirst + width * used;
         i += init_warps * kWarp) {
      const int own = i - Smem::kFirst;  // index among the tickets
      take(own < 0 ? barriers_ + i : of(own / used, own % used));
    }
  }
  VEERY_GPU Mbarrier* of(int slot, int ticket) const {
    return barriers_ + Smem::kFirst + slot * Smem::kTicketsPerSlot + ticket % Smem::kTicketsPerSlot;
  }

  Mbarrier* barriers_;
};

}  // namespace veery::gpu

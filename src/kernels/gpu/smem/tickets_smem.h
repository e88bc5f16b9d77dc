// tickets_smem.h: shared memory of ordered accumulation and of outlier blocks.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// The mbarriers of tickets (kernels/linear/tickets-inl.h).
struct TicketSmem {
  static constexpr int kSlots = 8;  ///< panels (or gate and up panels) that are accumulated at once
  /// mbarriers per slot, which its tickets use in turn. A wait distinguishes only odd and even
  /// phases, so the phase before the awaited one must be complete when the wait begins. One
  /// mbarrier per warp suffices if the warp that waits has processed an earlier tile of the slot,
  /// at most as many tickets before as there are warps. The first tiles of a narrow group lack this
  /// property: see Tickets::meet().
  static constexpr int kTicketsPerSlot = 16;
  static constexpr int kReleasedGates = 0, kGates = kSlots / 2, kOutliers = kSlots;
  static constexpr int kFirst = kOutliers + 1, kMeeting = kFirst + kSlots * kTicketsPerSlot;
  static constexpr int kCount = kMeeting + 1;
  static constexpr int kBytes = (kCount * 8 + 15) / 16 * 16;
};

/// Outlier blocks of the rows of a GEMM tile (kernels/linear/gemm_outliers-inl.h): columns that are
/// multiplied together, and for some blocks one bit per row.
struct OutlierSmem {
  static constexpr int kBlocks = 128, kTogether = 32;
  static constexpr int kColumnBytes = 384;  // OutlierColumns
  int bits, any_flag, bytes;
};
VEERY_GPU_HOST constexpr OutlierSmem outlier_smem(int rows) {
  const int bits = OutlierSmem::kTogether * OutlierSmem::kColumnBytes;
  const int any_flag = bits + OutlierSmem::kBlocks * rows / 8;
  return {bits, any_flag, any_flag + 16};
}

}  // namespace veery::gpu

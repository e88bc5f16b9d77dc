// gemm_skinny_smem.h: shared memory of gemm_skinny().
#pragma once
#include "kernels/gpu/smem/gemm_mma_smem.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

/// Products of one or two groups of 8 token rows. Each of `warps` consumer warps has a ring of
/// weight tiles, as in GemvSmem. All of them read x from one ring of chunks (the columns of a
/// weight tile), which one more warp fills.
struct GemmSkinnySmem {
  static constexpr int kSlots = GemvSmem::kSlots;
  static constexpr int kWarps = 8, kMaxWarps = 12;  ///< kMaxWarps: one group, if there is room
  static constexpr int kMinStages = 2, kMaxStages = 6;
  /// At least as many chunks as warps: a warp may run that many chunks ahead of another, and must
  /// not overwrite the chunk that the other one still reads.
  static constexpr int kMaxChunks = 16;
  /// The producer waits for tickets too, while the consumers go on with the chunks in the ring.
  static_assert(kMaxChunks <= TicketSmem::kTicketsPerSlot &&
                kMaxWarps <= TicketSmem::kTicketsPerSlot);
  static VEERY_GPU_HOST constexpr int max_threads(bool two_groups) {
    return ((two_groups ? kWarps : kMaxWarps) + 1) * 32;
  }
  int groups, warps;            ///< groups: at most; warps: consumers
  int units, tile_bytes;        ///< of a weight tile
  int k_tiles, group_bytes;     ///< K tiles of a chunk; bytes of a group's K tile
  int values;                   ///< partial sums of a panel per lane; they come first
  int tickets, best, outliers;  ///< outliers: one bit per block of 32
  int mbarriers, chunk_mbarriers;
  int chunks_at, chunks, chunk_bytes;  ///< chunks in flight
  int ring, stages;                    ///< weight tiles in flight per warp
  int bytes;
};

/// `max_smem`: bytes that a thread block may have. The product does not fit if there are fewer than
/// kMinStages stages.
VEERY_GPU_HOST constexpr GemmSkinnySmem gemm_skinny_smem(WeightFormat format, bool two_groups,
                                                         int cols, int max_smem, int warps) {
  constexpr int kMaxStages = GemmSkinnySmem::kMaxStages, kMaxChunks = GemmSkinnySmem::kMaxChunks;
  constexpr int kPreferredStages = 4;
  const GemmMmaSmem mma = gemm_mma_smem(format, true);
  GemmSkinnySmem p{};
  p.groups = two_groups ? 2 : 1, p.warps = warps;
  p.units = gemv_tile_units(format);
  p.tile_bytes = p.units * unit_layout(format).bytes;
  p.k_tiles = p.units / mma.units;
  p.group_bytes = mma.group_bytes;
  p.chunk_bytes = p.k_tiles * p.groups * p.group_bytes;
  p.values = 4 * p.groups * (weight_format_info(format).minima ? 2 : 1);
  int at = GemmSkinnySmem::kSlots * p.values * kWarp * 4;
  p.tickets = at, at += TicketSmem::kBytes;
  p.best = at, at += warps * 8 * p.groups * 8;
  p.outliers = at, at += weight_format_info(format).block == 32 ? (cols / 32 + 127) / 128 * 16 : 0;
  p.mbarriers = at, at += warps * kMaxStages * 8;
  p.chunk_mbarriers = at, at += kMaxChunks * 8;
  p.chunks_at = at = (at + 127) / 128 * 128;
  const int stage = warps * p.tile_bytes, left = max_smem - at;
  const auto min = [](int a, int b) { return a < b ? a : b; };
  p.stages = min((left - warps * p.chunk_bytes) / stage, kPreferredStages);
  if (p.stages < GemmSkinnySmem::kMinStages) return p;
  p.chunks = min((left - p.stages * stage) / p.chunk_bytes, kMaxChunks);
  p.stages = min((left - p.chunks * p.chunk_bytes) / stage, kMaxStages);
  p.ring = at + p.chunks * p.chunk_bytes;
  p.bytes = p.ring + p.stages * stage;
  return p;
}
VEERY_GPU_HOST constexpr GemmSkinnySmem gemm_skinny_smem(WeightFormat format, bool two_groups,
                                                         int cols, int max_smem) {
  if (!two_groups) {
    const GemmSkinnySmem more =
        gemm_skinny_smem(format, two_groups, cols, max_smem, GemmSkinnySmem::kMaxWarps);
    if (more.stages >= GemmSkinnySmem::kMinStages) return more;
  }
  return gemm_skinny_smem(format, two_groups, cols, max_smem, GemmSkinnySmem::kWarps);
}

}  // namespace veery::gpu

// gemv_smem.h: shared memory of products of one token row.
#pragma once
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/smem/tickets_smem.h"

namespace veery::gpu {

/// Shared memory of gemv(): the quantised activations, what quantises them, and for each of `warps`
/// consumer warps a ring of weight tiles. One more warp computes the residuals of outlier blocks.
struct GemvSmem {
  static constexpr int kWarps = 12;
  static constexpr int kExpertWarps = 8;  ///< of experts_gemv(), so that an SM holds two blocks
  static constexpr int kBf16Warps = 8;    ///< tiles of bf16 are twice as long
  static constexpr int kSlots = TicketSmem::kSlots;
  static constexpr int kMinStages = 2;
  int units, tile_bytes;         ///< of a weight tile
  int max_abs, inverse, staged;  ///< RowQuantizerInput
  int partial_sums;              ///< sums that are handed from tile to tile
  int tickets, mbarriers, ring;
  int stages;  ///< weight tiles in flight per warp
  int bytes;
  static VEERY_GPU_HOST constexpr int partial_sums_bytes(int terms) {
    return kSlots * kWarp * terms * 4;
  }
  static constexpr int kThreads = (kWarps + 1) * 32, kExpertThreads = (kExpertWarps + 1) * 32;
  static constexpr int kBf16Threads = (kBf16Warps + 1) * 32;
  static VEERY_GPU_HOST constexpr int warps_for(WeightFormat format) {
    return format == kBF16 ? kBf16Warps : kWarps;
  }
};
/// Units of a weight tile.
VEERY_GPU_HOST constexpr int gemv_tile_units(WeightFormat format) {
  if (format == kBF16) return kBf16PieceColumns / 16;
  constexpr int kTileBytes = 4736;
  if (has_half_scales(format)) return 8;  // two steps per unit, which are kept in registers
  const int units = kTileBytes / unit_layout(format).bytes;
  return weight_format_info(format).block == 32 ? units / 4 * 4 : units;
}
/// `max_smem`: bytes that a thread block may have. `terms`: 2 with residual quantisation. The
/// product does not fit if there are fewer than kMinStages stages.
VEERY_GPU_HOST constexpr GemvSmem gemv_smem(WeightFormat format, int terms, int cols, bool normed,
                                            int max_smem, int warps) {
  constexpr int kMaxStages = 8;
  const bool per32 = weight_format_info(format).block == 32;
  GemvSmem p{};
  p.units = gemv_tile_units(format);
  p.tile_bytes = p.units * unit_layout(format).bytes;
  const ActivationLayout layout = activation_layout(activation_kind(format), cols);
  int at = terms * layout.bytes;
  p.max_abs = at, at += per32 ? (cols / 8 + 15) / 16 * 16 : 0;
  p.inverse = at, at += 16;
  p.partial_sums = at, at += GemvSmem::partial_sums_bytes(terms);
  p.tickets = at, at += TicketSmem::kBytes;
  p.mbarriers = at, at += warps * kMaxStages * 8;
  p.staged = at, at += normed ? 4 * cols : 0;
  p.ring = (at + 127) / 128 * 128;
  p.stages = (max_smem - p.ring) / (warps * p.tile_bytes);
  if (p.stages > kMaxStages) p.stages = kMaxStages;
  p.bytes = p.ring + warps * p.stages * p.tile_bytes;
  return p;
}

}  // namespace veery::gpu

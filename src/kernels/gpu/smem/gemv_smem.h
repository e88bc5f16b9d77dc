// row_plan.h: what products of one row have in shared memory.
#pragma once
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/smem/linear_smem.h"

namespace veery::gpu {

/// What linear_row() has in shared memory: x in its form, what that is made with, and a ring for
/// each of `warps` warps, of items: what a warp takes from a panel at a time. One warp more has the
/// outliers.
struct RowPlan {
  static constexpr int kWarps = 12;
  static constexpr int kExpertWarps = 8;  ///< of experts_row(), two blocks of which a processor has
  static constexpr int kWideWarps = 8;    ///< of bf16: items twice as long, so as many bytes ahead
  static constexpr int kSlots = 8;        ///< panels (and mbarriers) that are under way together
  static constexpr int kLeastStages = 2;
  int each, item_bytes;              ///< of an item: units, bytes
  int largest, inverse, staged;      ///< RowSource
  int late, turns, mbarriers, ring;  ///< late: sums on their way; turns: Turns
  int stages;                        ///< items that are on their way to each warp
  int bytes;
  static VEERY_GPU_HOST constexpr int late_bytes(int terms) { return kSlots * kWarp * terms * 4; }
  static constexpr int kThreads = (kWarps + 1) * 32, kExpertThreads = (kExpertWarps + 1) * 32;
  static constexpr int kWideThreads = (kWideWarps + 1) * 32;
  static VEERY_GPU_HOST constexpr int warps_of(Format format) {
    return format == kBF16 ? kWideWarps : kWarps;
  }
};
/// Units of an item.
VEERY_GPU_HOST constexpr int row_units(Format format) {
  if (format == kBF16) return kPieceColumns / 16;
  constexpr int kItem = 4736;
  if (has_halves(format)) return 8;  // two steps each, which are in registers
  const int units = kItem / unit_places(format).bytes;
  return format_info(format).block == 32 ? units / 4 * 4 : units;
}
/// `room`: bytes of shared memory.
VEERY_GPU_HOST constexpr RowPlan row_plan(Format format, int terms, int cols, bool normed, int room,
                                          int warps) {
  constexpr int kMostStages = 8;
  const bool per32 = format_info(format).block == 32;
  RowPlan p{};
  p.each = row_units(format);
  p.item_bytes = p.each * unit_places(format).bytes;
  const FormPlaces places = form_places(form_kind(format), cols);
  int at = terms * places.bytes;
  p.largest = at, at += per32 ? (cols / 8 + 15) / 16 * 16 : 0;
  p.inverse = at, at += 16;
  p.late = at, at += RowPlan::late_bytes(terms);
  p.turns = at, at += TurnPlaces::kBytes;
  p.mbarriers = at, at += warps * kMostStages * 8;
  p.staged = at, at += normed ? 4 * cols : 0;
  p.ring = (at + 127) / 128 * 128;
  p.stages = (room - p.ring) / (warps * p.item_bytes);
  if (p.stages > kMostStages) p.stages = kMostStages;
  p.bytes = p.ring + warps * p.stages * p.item_bytes;
  return p;
}

}  // namespace veery::gpu

// tile_plan.h: what a block of threads has of a product of many rows.
#pragma once
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/smem/linear_smem.h"

namespace veery::gpu {

/// What linear_tiles() does: a block of threads has panels of 16 outputs and groups of 8 rows of x,
/// warps_m x warps_n warps share them. A slab is what the block takes at a time: 4 blocks of 32
/// columns or one of 256, or 128 columns of kBF16, of which several are on their way. One warp more
/// asks for those of kBF16.
struct TilePlan {
  int panels, groups, warps_m, warps_n;
  int stages, least;             ///< kBF16: slabs on their way, at most and at least
  int each;                      ///< units of a slab
  int weight_bytes, form_bytes;  ///< of a panel's and of a group's slab
  int stage_bytes;
  int gates;  ///< where mbarriers lie, which nothing may be put over; kBF16: behind the stages
  int bytes, threads;
};
/// Of bf16: 128 outputs and 128 rows, or 64 and 64. Each output has two sums in registers, so a
/// warp has 64 and 32 of them, or 32 and 32.
VEERY_GPU_HOST constexpr TilePlan bf16_tile_plan(bool small) {
  TilePlan p{};
  p.panels = small ? 4 : 8;
  p.groups = small ? 8 : 16;
  p.warps_m = 2, p.warps_n = small ? 2 : 4;
  p.stages = 3, p.least = small ? 1 : 2;
  p.each = 8;
  p.weight_bytes = p.each * unit_places(kBF16).bytes;
  p.form_bytes = tile_places(FormKind::kBF16, 128).slab;
  p.stage_bytes = p.panels * p.weight_bytes + p.groups * p.form_bytes;
  p.bytes = p.stages * (p.stage_bytes + 16);
  p.threads = (p.warps_m * p.warps_n + 1) * 32;
  return p;
}
/// Slabs that are on their way together, in `room` bytes.
VEERY_GPU_HOST constexpr int tile_stages(TilePlan plan, int room) {
  const int most = room / (plan.stage_bytes + 16);
  return most < plan.stages ? most : plan.stages;
}
VEERY_GPU_HOST constexpr TilePlan tile_plan(Format format, bool small) {
  if (format == kBF16) return bf16_tile_plan(small);
  const FormatInfo f = format_info(format);
  const TilePlaces places = tile_places(form_kind(format), 256);
  const bool wide = !small && f.block == 32 && !f.minima;  // one chain for each output
  TilePlan p{};
  p.panels = wide ? 8 : 4;
  p.groups = small || (f.block == 256 && f.sub == 16) ? 4 : 8;  // of the latter two sums a part
  p.warps_m = wide ? 4 : 2, p.warps_n = 2;
  p.stages = p.least = small ? 3 : 2;
  p.each = f.block == 32 ? 4 : 1;
  p.weight_bytes = p.each * unit_places(format).bytes;
  // No more than the format looks at.
  p.form_bytes = f.block == 32 ? (f.minima      ? places.slab
                                  : f.less != 0 ? places.moment
                                                : places.sum)
                 : !f.minima   ? places.sums
                 : f.sub == 32 ? places.sums16
                               : places.slab;
  p.stage_bytes = p.panels * p.weight_bytes + p.groups * p.form_bytes;
  // Afterwards sums (TileSums), and outliers that are still to be added.
  const int sums = 8 * p.groups * (16 * p.panels + 4) * 4 + outlier_places(8 * p.groups).bytes;
  p.gates = p.stages * p.stage_bytes;
  if (f.block == 32 && sums > p.gates) p.gates = sums;
  p.bytes = p.gates + p.stages * 8;
  p.threads = p.warps_m * p.warps_n * 32;
  return p;
}
/// Threads of all blocks that are to have room on a processor: its registers are shared out so.
VEERY_GPU_HOST constexpr int tile_threads(Format format, bool small) {
  const TilePlan plan = tile_plan(format, small);
  if (format == kBF16) return (small ? 2 : 1) * plan.threads;
  return (plan.groups == 4                                       ? 4
          : format == kQ4 || format == kBook || format == kBook2 ? 2
                                                                 : 3) *
         plan.threads;
}

}  // namespace veery::gpu

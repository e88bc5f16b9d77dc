// gemm_mma_smem.h: tile shape and shared memory of gemm_mma().
#pragma once
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/smem/tickets_smem.h"

namespace veery::gpu {

/// A thread block multiplies `panels` panels of 16 outputs with `groups` groups of 8 token rows,
/// shared out to warps_m x warps_n warps. A K tile is 4 blocks of 32 columns, one of 256, or 128
/// columns of bf16; several are in flight. bf16 has one more warp, the producer of the copies.
struct GemmMmaSmem {
  int panels, groups, warps_m, warps_n;
  int stages, min_stages;         ///< K tiles in flight; bf16 does with min_stages
  int units;                      ///< of a K tile
  int weight_bytes, group_bytes;  ///< of a K tile: of one panel, of one row group
  int stage_bytes;
  int barriers;  ///< offset of the mbarriers, which nothing may overwrite; bf16: after the stages
  int bytes, threads;
};
/// bf16: 128 outputs and 128 rows, or 64 and 64. Each output has two sums in registers, so a warp
/// has 64 x 32 or 32 x 32 of them.
VEERY_GPU_HOST constexpr GemmMmaSmem gemm_mma_smem_bf16(bool small) {
  GemmMmaSmem p{};
  p.panels = small ? 4 : 8;
  p.groups = small ? 8 : 16;
  p.warps_m = 2, p.warps_n = small ? 2 : 4;
  p.stages = 3, p.min_stages = small ? 1 : 2;
  p.units = 8;
  p.weight_bytes = p.units * unit_layout(kBF16).bytes;
  p.group_bytes = activation_group_layout(ActivationKind::kBF16, 128).k_tile;
  p.stage_bytes = p.panels * p.weight_bytes + p.groups * p.group_bytes;
  p.bytes = p.stages * (p.stage_bytes + 16);
  p.threads = (p.warps_m * p.warps_n + 1) * 32;
  return p;
}
/// K tiles in flight that fit into `max_smem` bytes.
VEERY_GPU_HOST constexpr int gemm_mma_stages(GemmMmaSmem plan, int max_smem) {
  const int fit = max_smem / (plan.stage_bytes + 16);
  return fit < plan.stages ? fit : plan.stages;
}
VEERY_GPU_HOST constexpr GemmMmaSmem gemm_mma_smem(WeightFormat format, bool small) {
  if (format == kBF16) return gemm_mma_smem_bf16(small);
  const WeightFormatInfo f = weight_format_info(format);
  const ActivationGroupLayout layout = activation_group_layout(activation_kind(format), 256);
  const bool wide = !small && f.block == 32 && !f.minima;  // one running sum per output
  GemmMmaSmem p{};
  p.panels = wide ? 8 : 4;
  p.groups = small || (f.block == 256 && f.sub == 16) ? 4 : 8;  // the latter has two sums per part
  p.warps_m = wide ? 4 : 2, p.warps_n = 2;
  p.stages = p.min_stages = small ? 3 : 2;
  p.units = f.block == 32 ? 4 : 1;
  p.weight_bytes = p.units * unit_layout(format).bytes;
  // Copies only what the format reads of a group's K tile.
  p.group_bytes = f.block == 32 ? (f.minima      ? layout.k_tile
                                   : f.less != 0 ? layout.moment
                                                 : layout.sum)
                  : !f.minima   ? layout.sums
                  : f.sub == 32 ? layout.sums16
                                : layout.k_tile;
  p.stage_bytes = p.panels * p.weight_bytes + p.groups * p.group_bytes;
  // The epilogue reuses the stages: sums (GemmSums), and the outlier blocks still to be added.
  const int sums = 8 * p.groups * (16 * p.panels + 4) * 4 + outlier_smem(8 * p.groups).bytes;
  p.barriers = p.stages * p.stage_bytes;
  if (f.block == 32 && sums > p.barriers) p.barriers = sums;
  p.bytes = p.barriers + p.stages * 8;
  p.threads = p.warps_m * p.warps_n * 32;
  return p;
}
/// Threads that one SM is to hold, over all thread blocks: bounds the registers of a thread.
VEERY_GPU_HOST constexpr int gemm_mma_sm_threads(WeightFormat format, bool small) {
  const GemmMmaSmem plan = gemm_mma_smem(format, small);
  if (format == kBF16) return (small ? 2 : 1) * plan.threads;
  return (plan.groups == 4                                        ? 4
          : format == kQ4 || format == kMXFP4 || format == kNVFP4 ? 2
                                                                  : 3) *
         plan.threads;
}

}  // namespace veery::gpu

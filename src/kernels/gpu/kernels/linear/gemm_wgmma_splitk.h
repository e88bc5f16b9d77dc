// gemm_wgmma_splitk.h: int8 wgmma for products with too few rows and panels to give each SM a tile
// of gemm_wgmma_int8.h: the warps of a block split K.
//
// Each set of warps computes the integer sums of its units alone. The sequential accumulation
// continues in shared memory in the order of the units: a warp waits until the warp with the
// previous unit has added its step.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey gemm_wgmma_splitk() {
  return of(Family::kGemmWgmmaSplitk, kK4M, RowClass::kThirtyTwo, 0);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/linear/gemm_wgmma_int8.h"

namespace veery::gpu {

class GemmWgmmaSplitk
    : GemmEpilogue<GemmWgmmaSplitkSmem::kPanels, GemmWgmmaSplitkSmem::kGroups,
                   GemmWgmmaSplitkSmem::kPanels, GemmWgmmaSplitkSmem::kPanels * kWarp> {
 public:
  static constexpr int kGroups = GemmWgmmaSplitkSmem::kGroups, kSets = GemmWgmmaSplitkSmem::kSets,
                       kStages = GemmWgmmaSplitkSmem::kStages,
                       kPanels = GemmWgmmaSplitkSmem::kPanels;

  VEERY_GPU explicit GemmWgmmaSplitk(const GemmParams& params)
      : GemmEpilogue(params), units_(a_.act.cols / 256) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    begin();
    int stage = 0, phase = 0;
    for (int u = set(); u < units_; u += kSets) {
      wait_for_phase(full_barrier(stage), phase);
      const uint8_t* k_tile = at(stage);
      const WgmmaInt8Unit<kGroups> unit(k_tile + panel() * GemmWgmmaInt8Smem::kUnit,
                                        k_tile + kPanels * GemmWgmmaInt8Smem::kUnit);
      add_in_order(u, unit);
      refill(u + kSets * kStages, stage, phase);
      sync_warp();
      if (++stage == kStages) stage = 0, ++phase;
    }
    sync_block();  // all units are added
    if (set() == 0) store_results();
    sync_block();
    if (set() == 0) finish();
  }

 private:
  static VEERY_GPU int set() { return warp() / kPanels; }
  static VEERY_GPU int panel() { return warp() % kPanels; }

  // Copies

  static VEERY_GPU uint8_t* at(int stage) {
    return shared_memory() + (set() * kStages + stage) * GemmWgmmaSplitkSmem::kStage;
  }
  static VEERY_GPU Mbarrier* full_barrier(int stage) {
    return reinterpret_cast<Mbarrier*>(shared_memory() + GemmWgmmaSplitkSmem::kMbarriers) +
           set() * kStages + stage;
  }
  static VEERY_GPU Mbarrier* empty_barrier(int stage) {
    return full_barrier(kSets * kStages + stage);
  }
  /// Signals that a set has added its step to the sums of a panel.
  static VEERY_GPU Mbarrier* sums_ready(int by) {
    return reinterpret_cast<Mbarrier*>(shared_memory() + GemmWgmmaSplitkSmem::kTickets) +
           panel() * kSets + by;
  }
  VEERY_GPU void begin() {
    if (lane() == 0 && panel() == 0)
      for (int s = 0; s < kStages; ++s) {
        init_mbarrier(full_barrier(s), kPanels + 1);
        init_mbarrier(empty_barrier(s), kPanels * kWarp);
      }
    if (lane() == 0) init_mbarrier(sums_ready(set()));
    sync_block();
    data_ = panel_data(panel_at(panel()));
    if (lane() == 0)
      for (int s = 0; s < kStages && set() + s * kSets < units_; ++s) {
        copy_panel(set() + s * kSets, s);
        if (panel() == 0) copy_rows(set() + s * kSets, s);
      }
    sync_warp();
  }
  VEERY_GPU void copy_panel(int u, int stage) const {
    copy_bulk(full_barrier(stage), at(stage) + panel() * GemmWgmmaInt8Smem::kUnit,
              data_ + u * GemmWgmmaInt8Smem::kUnit, GemmWgmmaInt8Smem::kUnit);
  }
  VEERY_GPU void copy_rows(int u, int stage) const {
    copy_bulk(full_barrier(stage), at(stage) + kPanels * GemmWgmmaInt8Smem::kUnit,
              activation_group(a_.act, first_group_).k_tile(8 * u), GemmWgmmaSplitkSmem::kActBytes);
  }
  /// Refills a stage that this warp has released with unit u. One warp of each set copies the rows.
  VEERY_GPU void refill(int u, int stage, int phase) const {
    if (u >= units_) return;
    arrive(empty_barrier(stage));
    sync_warp();
    if (lane() != 0) return;
    copy_panel(u, stage);
    if (panel() != 0) return;
    wait_for_phase(empty_barrier(stage), phase);
    copy_rows(u, stage);
  }

  // Ordered accumulation. Shared memory has the sums of a panel: [group][lane][4] sums of products,
  // then of minima.

  static VEERY_GPU Four<float>* sums() {
    return reinterpret_cast<Four<float>*>(shared_memory() + GemmWgmmaSplitkSmem::kSums +
                                          panel() * GemmWgmmaSplitkSmem::kPanelSums) +
           lane();
  }
  static VEERY_GPU void load_sums(float (&sum)[kGroups][4], float (&low)[kGroups][4]) {
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      const Four<float> x = sums()[n * kWarp], y = sums()[(kGroups + n) * kWarp];
      sum[n][0] = x.x, sum[n][1] = x.y, sum[n][2] = x.z, sum[n][3] = x.w;
      low[n][0] = y.x, low[n][1] = y.y, low[n][2] = y.z, low[n][3] = y.w;
    }
  }
  static VEERY_GPU void add_in_order(int u, const WgmmaInt8Unit<kGroups>& unit) {
    float sum[kGroups][4] = {}, low[kGroups][4] = {};
    if (u > 0) wait_for_phase(sums_ready((u - 1) % kSets), (u - 1) / kSets);
    if (u > 0) load_sums(sum, low);
    unit.add_to(sum, low);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      sums()[n * kWarp] = {sum[n][0], sum[n][1], sum[n][2], sum[n][3]};
      sums()[(kGroups + n) * kWarp] = {low[n][0], low[n][1], low[n][2], low[n][3]};
    }
    arrive(sums_ready(set()));
  }
  static VEERY_GPU void store_results() {
    float sum[kGroups][4], low[kGroups][4];
    load_sums(sum, low);
    store_sums(sum, low, panel(), shared_sums());
  }
  static_assert(kSumBytes <= GemmWgmmaSplitkSmem::kSums);

  int units_;
  const uint8_t* data_;
};

VEERY_GPU void gemm_wgmma_splitk(const GemmParams& a) {
  wait_for_dependencies();
  GemmWgmmaSplitk(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_GEMM_WGMMA_SPLITK_KERNELS(X)                                                 \
  X(kWgmma, gemm_wgmma_splitk_k4m, GemmParams, (veery::gpu::GemmWgmmaSplitkSmem::kThreads), 0, \
    key::gemm_wgmma_splitk(), (gemm_wgmma_splitk))

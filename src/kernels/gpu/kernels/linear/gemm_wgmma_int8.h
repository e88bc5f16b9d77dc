// gemm_wgmma_int8.h: GEMM of Q4_K weights by int8 wgmma. The activations are split into two digits
// (ActivationKind::kInt4Digits). The bits are those of gemm_direct.h.
//
// A code times 2^shift is 16 high + low, so the sum of 32 columns is that of (16 w) high + w low.
// The shifts of the activations then cost nothing when the sums are multiplied by the weight
// scales.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey gemm_wgmma_int8() {
  return of(Family::kGemmWgmmaInt8, kK4M, RowClass::kMany, 0);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/wgmma.h"
#include "kernels/gpu/kernels/linear/gemm_epilogue-inl.h"
#include "kernels/gpu/kernels/linear/mma_blocks-inl.h"
#include "kernels/gpu/kernels/linear/x_groups-inl.h"
#include "kernels/gpu/smem/gemm_wgmma_smem.h"

namespace veery::gpu {

/// The unit of a warp's panel times 256 columns of kGroups row groups.
template <int kGroups>
class WgmmaInt8Unit {
 public:
  static constexpr WeightFormat kFormat = kK4M;
  static constexpr UnitLayout kLayout = unit_layout(kFormat);
  static constexpr ActivationGroupLayout kKTile =
      activation_group_layout(ActivationKind::kInt4Digits, 256);

  /// Computes the integer sums: products of codes, times weight scales. All warps of a warpgroup
  /// must call it.
  VEERY_GPU WgmmaInt8Unit(const uint8_t* unit, const uint8_t* act) : unit_(unit), act_(act) {
    const auto scales = load<Four<uint32_t>>(unit + kLayout.scales + lane() / 4 * 16);
    int32_t c[kGroups][4];
    Digits digits;
    unpack(unit, digits);
    VEERY_UNROLL(8)
    for (int s = 0; s < 8; ++s) {
      wgmma_u8s8_pair(c, digits.high, digits.low, act + s * 512, GemmWgmmaInt8Smem::kGroup);
      Digits next = {};
      if (s < 7) unpack(unit + (s + 1) * kLayout.fragment, next);
      const int low = signed_byte_of(s < 4 ? scales.x : scales.y, s % 4);
      const int high = signed_byte_of(s < 4 ? scales.z : scales.w, s % 4);
      wgmma_wait_int(c);
      VEERY_UNROLL(8)
      for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int32_t own = c[n][i] * (i < 2 ? low : high);
        all_[n][i] = s == 0 ? own : all_[n][i] + own;
      }
      digits = next;
    }
  }
  /// One step of the sequential accumulation of products and of minima.
  VEERY_GPU void add_to(float (&sum)[kGroups][4], float (&low)[kGroups][4]) const {
    const Two<float> d = load_scales<kFormat>(unit_), least = load_f16_pair(unit_ + kLayout.m);
    typename MmaSuperBlock<kFormat, 1, kGroups, GemmWgmmaInt8Smem::kUnit,
                           GemmWgmmaInt8Smem::kGroup>::Minima minima;
    minima.load(unit_);
    VEERY_UNROLL(8)
    for (int n = 0; n < kGroups; ++n) {
      const uint8_t* at = act_ + n * GemmWgmmaInt8Smem::kGroup;
      const auto scale = load<Two<float>>(at + kKTile.scale + lane() % 4 * 8);
      float lows[4];
      minima.add_up(load<Two<uint32_t>>(at + kKTile.sums + lane() * 8), lows);
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const float own = i % 2 == 0 ? scale.x : scale.y;
        sum[n][i] = fma((i < 2 ? d.x : d.y) * own, static_cast<float>(all_[n][i]), sum[n][i]);
        low[n][i] = fma((i < 2 ? least.x : least.y) * own, lows[i], low[n][i]);
      }
    }
  }

 private:
  /// Weights of 32 columns times 16, and unchanged.
  struct Digits {
    uint32_t high[4], low[4];
  };
  static VEERY_GPU void unpack(const uint8_t* fragment, Digits& to) {
    const auto v = load<Two<uint32_t>>(fragment + lane() * 8);
    to.low[0] = v.x & 0x0f0f0f0fU, to.low[1] = v.y & 0x0f0f0f0fU;
    to.low[2] = v.x >> 4 & 0x0f0f0f0fU, to.low[3] = v.y >> 4 & 0x0f0f0f0fU;
    to.high[0] = v.x << 4 & 0xf0f0f0f0U, to.high[1] = v.y << 4 & 0xf0f0f0f0U;
    to.high[2] = v.x & 0xf0f0f0f0U, to.high[3] = v.y & 0xf0f0f0f0U;
  }

  const uint8_t *unit_, *act_;
  int32_t all_[kGroups][4];
};
/// Stores the difference of products and minima; `panel`: index in the block.
template <int kGroups, typename Sums>
VEERY_GPU void store_sums(const float (&sum)[kGroups][4], const float (&low)[kGroups][4], int panel,
                          const Sums& to) {
  VEERY_UNROLL(8)
  for (int n = 0; n < kGroups; ++n)
    to.store(n, panel,
             {sum[n][0] - low[n][0], sum[n][1] - low[n][1], sum[n][2] - low[n][2],
              sum[n][3] - low[n][3]});
}

/// A warp has one panel and all rows of the block.
class GemmWgmmaInt8 : GemmEpilogue<GemmWgmmaInt8Smem::kWarps, GemmWgmmaInt8Smem::kGroups,
                                   GemmWgmmaInt8Smem::kWarps, GemmWgmmaInt8Smem::kThreads> {
 public:
  static constexpr int kGroups = GemmWgmmaInt8Smem::kGroups, kStages = GemmWgmmaInt8Smem::kStages;

  VEERY_GPU explicit GemmWgmmaInt8(const GemmParams& params)
      : GemmEpilogue(params), units_(a_.act.cols / 256) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    begin();
    int stage_index = 0, phase = 0, previous = 0, previous_phase = 0;
    for (int u = 0; u < units_; ++u) {
      wait_for_phase(full_barrier(stage_index), phase);
      const uint8_t* stage = shared_memory() + stage_index * GemmWgmmaInt8Smem::kStage;
      const WgmmaInt8Unit<kGroups> unit(
          stage + warp() * GemmWgmmaInt8Smem::kUnit,
          stage + GemmWgmmaInt8Smem::kWarps * GemmWgmmaInt8Smem::kUnit);
      unit.add_to(sum_, low_);
      refill(u, stage_index, previous, previous_phase);
      sync_warp();
      previous = stage_index, previous_phase = phase;
      if (++stage_index == kStages) stage_index = 0, ++phase;
    }
    sync_block();  // the stages are free
    store_sums(sum_, low_, warp(), shared_sums());
    sync_block();
    finish();
  }

 private:
  // Copies: each warp copies its own panel; one warp copies the rows, once all have released a
  // stage.

  VEERY_GPU Mbarrier* full_barrier(int stage) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + kStages * GemmWgmmaInt8Smem::kStage) +
           stage;
  }
  VEERY_GPU Mbarrier* empty_barrier(int stage) const { return full_barrier(kStages + stage); }
  VEERY_GPU void begin() {
    if (thread() < kStages) {
      init_mbarrier(full_barrier(thread()), GemmWgmmaInt8Smem::kWarps + 1);
      init_mbarrier(empty_barrier(thread()), GemmWgmmaInt8Smem::kThreads);
    }
    sync_block();
    panel_ = panel_data(panel_at(warp()));
    if (lane() == 0)
      for (int s = 0; s < kStages && s < units_; ++s) {
        copy_panel(s, s);
        if (is_producer(s)) copy_rows(s, s);
      }
    sync_warp();
  }
  static VEERY_GPU bool is_producer(int stage) { return warp() == 4 * stage; }
  VEERY_GPU void copy_panel(int u, int stage) const {
    uint8_t* to =
        shared_memory() + stage * GemmWgmmaInt8Smem::kStage + warp() * GemmWgmmaInt8Smem::kUnit;
    copy_bulk(full_barrier(stage), to, panel_ + u * GemmWgmmaInt8Smem::kUnit,
              GemmWgmmaInt8Smem::kUnit);
  }
  VEERY_GPU void copy_rows(int u, int stage) const {
    uint8_t* to = shared_memory() + stage * GemmWgmmaInt8Smem::kStage +
                  GemmWgmmaInt8Smem::kWarps * GemmWgmmaInt8Smem::kUnit;
    copy_bulk(full_barrier(stage), to, activation_group(a_.act, first_group_).k_tile(8 * u),
              GemmWgmmaInt8Smem::kActBytes);
  }
  /// After unit u: releases its stage and refills it with this warp's panel. The rows of unit u - 1
  /// are refilled only now, when the other warps have probably finished that unit.
  VEERY_GPU void refill(int u, int stage, int previous, int previous_phase) const {
    if (u + kStages < units_) arrive(empty_barrier(stage));
    sync_warp();
    if (lane() != 0) return;
    if (u + kStages < units_) copy_panel(u + kStages, stage);
    if (u > 0 && u - 1 + kStages < units_ && is_producer(previous)) {
      wait_for_phase(empty_barrier(previous), previous_phase);
      copy_rows(u - 1 + kStages, previous);
    }
  }

  static_assert(kSumBytes <= GemmWgmmaInt8Smem::kStage);

  int units_;
  const uint8_t* panel_;
  /// As in GemmMma.
  float sum_[kGroups][4] = {}, low_[kGroups][4] = {};
};

VEERY_GPU void gemm_wgmma_int8(const GemmParams& a) {
  wait_for_dependencies();
  GemmWgmmaInt8(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_GEMM_WGMMA_INT8_KERNELS(X)                                          \
  X(kWgmma, gemm_wgmma_k4m, GemmParams, (veery::gpu::GemmWgmmaInt8Smem::kThreads), 0, \
    key::gemm_wgmma_int8(), (gemm_wgmma_int8))

// gemm_mma.h: GEMM by mma.sync with multi-stage shared memory. A thread block multiplies some
// panels with some row groups; asynchronous copies fill the next K tiles while the current one is
// multiplied. The bits are those of gemm_direct.h.
//
// For bf16 a producer warp issues the copies, so that the consumer warps need no block-wide
// barrier: each goes on as soon as its next K tile has arrived.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

/// `small`: a small tile, for products with fewer large tiles than SMs.
constexpr KernelKey gemm_mma(WeightFormat format, bool small) {
  return of(Family::kGemmMma, format, RowClass::kMany, small);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/linear/gemm_epilogue-inl.h"
#include "kernels/gpu/kernels/linear/gemm_outliers-inl.h"
#include "kernels/gpu/kernels/linear/mma_blocks-inl.h"
#include "kernels/gpu/kernels/linear/x_groups-inl.h"
#include "kernels/gpu/smem/gemm_mma_smem.h"

namespace veery::gpu {

template <GemmMmaSmem kPlan>
using OutputsOf = GemmEpilogue<kPlan.panels, kPlan.groups, kPlan.panels / kPlan.warps_m,
                               kPlan.warps_m * kPlan.warps_n * kWarp>;

template <WeightFormat kFormat, GemmMmaSmem kPlan>
class GemmMma : OutputsOf<kPlan> {
 public:
  static constexpr WeightFormatInfo kInfo = weight_format_info(kFormat);
  static constexpr UnitLayout kLayout = unit_layout(kFormat);
  static constexpr ActivationKind kKind = activation_kind(kFormat);
  static constexpr ActivationGroupLayout kActLayout = activation_group_layout(kKind, 256);
  using Outputs = OutputsOf<kPlan>;
  static constexpr int kM = kPlan.panels / kPlan.warps_m, kN = kPlan.groups / kPlan.warps_n;
  using Outputs::a_, Outputs::rows_, Outputs::first_group_;
  using Outputs::panel_at, Outputs::panel_data;
  static constexpr int kPieces = kPlan.panels + kPlan.groups;  // panels and groups, one copy each
  static constexpr int kConsumerWarps = kPlan.warps_m * kPlan.warps_n;
  static constexpr int kProducerWarp = kFormat == kBF16 ? kConsumerWarps : 0;  // issues the copies
  static_assert(kPieces <= kWarp && kM % 2 == 0);

  VEERY_GPU explicit GemmMma(const GemmParams& params)
      : Outputs(params),
        units_((a_.act.cols + kInfo.block - 1) / kInfo.block),
        k_tiles_((units_ + kPlan.units - 1) / kPlan.units) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    if constexpr (kFormat == kBF16) {
      run_bf16();
    } else {
      run_quantized();
    }
  }

 private:
  VEERY_GPU void run_quantized() {
    if (thread() < kPlan.stages) init_mbarrier(full_barrier(thread()));
    sync_block();
    choose_piece();
    for (int s = 0; s < kPlan.stages; ++s) copy_k_tile(s, s);
    int stage_index = 0, phase = 0;
    for (int s = 0; s < k_tiles_; ++s) {
      wait_for_phase(full_barrier(stage_index), phase);
      const uint8_t* stage = shared_memory() + stage_index * kPlan.stage_bytes;
      const uint8_t* weights = stage + warp_m() * kM * kPlan.weight_bytes;
      const uint8_t* act =
          stage + kPlan.panels * kPlan.weight_bytes + warp_n() * kN * kPlan.group_bytes;
      if constexpr (kInfo.block == 256)
        super_block(weights, act);
      else
        some_blocks(weights, act, units_ - s * kPlan.units);
      sync_block();  // the stage is free
      copy_k_tile(s + kPlan.stages, stage_index);
      if (++stage_index == kPlan.stages) stage_index = 0, ++phase;
    }
    store();
  }

  VEERY_GPU int stages() const {
    if constexpr (kFormat == kBF16) return gemm_mma_stages(kPlan, a_.max_smem);
    return kPlan.stages;
  }
  static VEERY_GPU int warp_m() { return warp() % kPlan.warps_m; }
  static VEERY_GPU int warp_n() { return warp() / kPlan.warps_m; }

  VEERY_GPU const uint8_t* group_data(int n) const {
    const int last = (rows_ + 7) / 8 - 1;
    return a_.act.data + int64_t{first_group_ + n < last ? first_group_ + n : last} * a_.act.stride;
  }

  // Copies

  VEERY_GPU Mbarrier* full_barrier(int stage) const {
    const int at = kFormat == kBF16 ? stages() * kPlan.stage_bytes : kPlan.barriers;
    return reinterpret_cast<Mbarrier*>(shared_memory() + at) + stage;
  }
  /// Chooses what each lane of the producer copies of every K tile: part of a panel or of a group.
  VEERY_GPU void choose_piece() {
    const bool is_panel = lane() < kPlan.panels;
    const int n = is_panel || lane() >= kPieces ? 0 : lane() - kPlan.panels;
    if (kFormat == kBF16 && !is_panel) {
      piece_ = activation_group(a_.act, first_group_).at;
      offset_ = kPlan.panels * kPlan.weight_bytes, step_ = kBf16GroupsTogether * kActLayout.k_tile;
      remaining_ = k_tiles_ * groups() * kPlan.group_bytes;
    } else if (is_panel) {
      piece_ = panel_data(panel_at(lane()));
      offset_ = lane() * kPlan.weight_bytes, step_ = kPlan.weight_bytes;
      remaining_ = units_ * kLayout.bytes;
    } else {
      piece_ = group_data(n);
      offset_ = kPlan.panels * kPlan.weight_bytes + n * kPlan.group_bytes,
      step_ = kActLayout.k_tile;
      remaining_ = k_tiles_ * kPlan.group_bytes;
    }
  }
  /// Issues the copies of K tile s. The row groups of bf16 are one contiguous copy.
  VEERY_GPU void copy_k_tile(int s, int stage) {
    if (warp() != kProducerWarp || s >= k_tiles_) return;
    struct Piece {
      uint8_t* to;
      const uint8_t* from;
      int bytes;
    };
    const int piece_bytes = lane() < kPlan.panels ? kPlan.weight_bytes
                            : kFormat == kBF16    ? groups() * kPlan.group_bytes
                                                  : kPlan.group_bytes;
    const int count = kFormat == kBF16 ? kPlan.panels + 1 : kPieces;
    copy_bulk_pieces(full_barrier(stage), count, [&](int) {
      return Piece{shared_memory() + stage * kPlan.stage_bytes + offset_, piece_,
                   remaining_ < piece_bytes ? remaining_ : piece_bytes};
    });
    piece_ += step_, remaining_ -= piece_bytes;
  }

  // bf16

  /// Row groups of the block.
  VEERY_GPU int groups() const {
    const int left = (rows_ + 7) / 8 - first_group_;
    return left < kPlan.groups ? left : kPlan.groups;
  }
  VEERY_GPU Mbarrier* empty_barrier(int stage) const { return full_barrier(stages() + stage); }
  /// The producer refills a stage as soon as all consumers have released it.
  VEERY_GPU void run_bf16() {
    const int stage_count = stages();
    if (thread() < stage_count) {
      init_mbarrier(full_barrier(thread()));
      init_mbarrier(empty_barrier(thread()), kConsumerWarps * kWarp);
    }
    sync_block();
    if (warp() == kProducerWarp) {
      choose_piece();
      for (int s = 0, stage = 0, phase = 0; s < k_tiles_; ++s) {
        if (phase > 0) wait_for_phase(empty_barrier(stage), phase - 1);
        sync_warp();
        copy_k_tile(s, stage);
        if (++stage == stage_count) stage = 0, ++phase;
      }
    } else {
      const int present = groups() - warp_n() * kN;
      for (int s = 0, stage = 0, phase = 0; s < k_tiles_; ++s) {
        wait_for_phase(full_barrier(stage), phase);
        add_k_tile(shared_memory() + stage * kPlan.stage_bytes, units_ - s * kPlan.units, present);
        arrive(empty_barrier(stage));
        if (++stage == stage_count) stage = 0, ++phase;
        if ((s + 1) % (kBf16PieceColumns / 128) == 0 || s + 1 == k_tiles_) add_piece();
      }
    }
    sync_block();  // the stages are free
    store();
  }
  /// `left`: units up to the last one; `present`: row groups of the warp. The common cases are
  /// unrolled.
  VEERY_GPU void add_k_tile(const uint8_t* stage, int left, int present) {
    const uint8_t* weights = stage + warp_m() * kM * kPlan.weight_bytes;
    const uint8_t* act =
        stage + kPlan.panels * kPlan.weight_bytes + warp_n() * kN * kPlan.group_bytes;
    if (present >= kN && left >= kPlan.units) {
      VEERY_UNROLL(8)
      for (int j = 0; j < kPlan.units; ++j) add_unit<kN>(weights, act, j, kN);
    } else if (present == 1 && left >= kPlan.units) {
      VEERY_UNROLL(8)
      for (int j = 0; j < kPlan.units; ++j) add_unit<1>(weights, act, j, 1);
    } else {
      VEERY_UNROLL(1)
      for (int j = 0; j < kPlan.units && j < left; ++j) add_unit<kN>(weights, act, j, present);
    }
  }
  /// Adds 16 columns of `present` groups, at most kGroups.
  template <int kGroups>
  VEERY_GPU void add_unit(const uint8_t* weights, const uint8_t* act, int j, int present) {
    Two<uint32_t> b[kGroups] = {};
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n)
      if (n < present) b[n] = load_bf16_fragment(act + n * kPlan.group_bytes + j * 256);
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      uint32_t fragment[4];
      load_fragment<kFormat>(weights + m * kPlan.weight_bytes + j * kLayout.bytes, fragment);
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n)
        if (n < present) mma_m16n8k16_bf16(part_[m][n], fragment, b[n].x, b[n].y);
    }
  }
  VEERY_GPU void add_piece() {
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      sum_[m][n][i] = sum_[m][n][i] + part_[m][n][i];
      part_[m][n][i] = 0;
    }
  }

  // Blocks of 32

  struct Factors {
    Two<float> scale;
    Two<int32_t> sum;
    Two<float> moment;
  };
  VEERY_GPU void some_blocks(const uint8_t* weights, const uint8_t* act, int left) {
    VEERY_UNROLL(4)
    for (int b = 0; b < 4; ++b) {
      if (b >= left) continue;
      sync_warp();
      add_block(weights + b * kLayout.bytes, act, b);
    }
  }
  static VEERY_GPU Factors factors_of(const uint8_t* act, int b) {
    const uint8_t* at = act + b * 32 + lane() % 4 * 8;
    Factors f{load<Two<float>>(at + kActLayout.scale), {0, 0}, {0, 0}};
    if constexpr (kInfo.less != 0) f.sum = load<Two<int32_t>>(at + kActLayout.sum);
    if constexpr (kInfo.minima) f.moment = load<Two<float>>(at + kActLayout.moment);
    return f;
  }
  VEERY_GPU void add_block(const uint8_t* units, const uint8_t* act, int b) {
    Two<uint32_t> codes[kN];
    Factors factors[kN];
    VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) {
      const uint8_t* own = act + n * kPlan.group_bytes;
      codes[n] = load<Two<uint32_t>>(own + b * 256 + lane() * 8), factors[n] = factors_of(own, b);
    }
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      const uint8_t* unit = units + m * kPlan.weight_bytes;
      uint32_t fragment[4];
      load_fragment<kFormat>(unit, fragment);
      Two<float> least = {0, 0};
      if constexpr (kInfo.minima) least = load_minima<kFormat>(unit);
      VEERY_UNROLL(2)
      for (int h = 0; h < (has_half_scales(kFormat) ? 2 : 1); ++h) {
        const Two<float> d = load_scales<kFormat>(unit, h);
        VEERY_UNROLL(4)
        for (int n = 0; n < kN; ++n) {
          const Factors& f = factors[n];
          int32_t c[4];
          multiply_block<kFormat>(c, fragment, codes[n], f.sum, h);
          VEERY_UNROLL(4)
          for (int i = 0; i < 4; ++i) {
            const float scale = i % 2 == 0 ? f.scale.x : f.scale.y;
            sum_[m][n][i] = fma((i < 2 ? d.x : d.y) * scale, from_magic_bits(c[i]), sum_[m][n][i]);
            if constexpr (kInfo.minima)
              low_[m][n][i] = fma(i < 2 ? least.x : least.y, i % 2 == 0 ? f.moment.x : f.moment.y,
                                  low_[m][n][i]);
          }
        }
      }
    }
  }

  // Blocks of 256

  VEERY_GPU void super_block(const uint8_t* weights, const uint8_t* act) {
    using Block = MmaSuperBlock<kFormat, kM, kN, kPlan.weight_bytes, kPlan.group_bytes>;
    int32_t all[kM][kN][4] = {};
    Block::add_up(weights, act, kN, all);
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      const uint8_t* unit = weights + m * kPlan.weight_bytes;
      const Two<float> d = load_scales<kFormat>(unit);
      Two<float> least = {0, 0};
      typename Block::Minima minima;
      if constexpr (kInfo.minima) {
        least = load_f16_pair(unit + kLayout.m);
        minima.load(unit);
      }
      VEERY_UNROLL(4)
      for (int n = 0; n < kN; ++n) {
        const uint8_t* at = act + n * kPlan.group_bytes;
        const auto scale = load<Two<float>>(at + kActLayout.scale + lane() % 4 * 8);
        float lows[4] = {0, 0, 0, 0};
        if constexpr (kInfo.minima) minima.add_up(at, lows);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const float own = i % 2 == 0 ? scale.x : scale.y;
          sum_[m][n][i] =
              fma((i < 2 ? d.x : d.y) * own, static_cast<float>(all[m][n][i]), sum_[m][n][i]);
          if constexpr (kInfo.minima)
            low_[m][n][i] = fma((i < 2 ? least.x : least.y) * own, lows[i], low_[m][n][i]);
        }
      }
    }
  }

  // Outputs

  static constexpr bool kOutliers = kInfo.block == 32;
  using Outliers = OutlierGemm<kFormat, kPlan.groups * 8, kPlan.panels>;
  static_assert(kOutliers ? kPlan.panels == kConsumerWarps &&
                                Outputs::kSumBytes + Outliers::kLayout.bytes <= kPlan.barriers
                          : Outputs::kSumBytes <= kPlan.min_stages * kPlan.stage_bytes);

  /// Collects the sums in shared memory, so that a warp writes neighbouring outputs.
  VEERY_GPU void store() {
    if (warp() < kConsumerWarps) store_sums();
    sync_block();
    if constexpr (kOutliers) {
      Outliers(a_.act, first_group_, rows_ - 8 * first_group_, shared_memory() + Outputs::kSumBytes)
          .add(panel_data(panel_at(warp())), Outputs::shared_sums());
      if constexpr (kInfo.minima) {
        add_lows();
        sync_block();
      }
    }
    if (warp() < kConsumerWarps) this->finish();
  }
  /// Minima of blocks of 32 are added after the outlier blocks.
  VEERY_GPU void store_sums() const {
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) {
      float sum[4];
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        sum[i] = sum_[m][n][i];
        if constexpr (kInfo.minima && !kOutliers) sum[i] = sum[i] - low_[m][n][i];
      }
      Outputs::shared_sums().store(warp_n() * kN + n, warp_m() * kM + m, sum);
    }
  }
  VEERY_GPU void add_lows() const {
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) VEERY_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const int row = ((warp_n() * kN + n) * 8 + lane() % 4 * 2 + i) * Outputs::kStride;
      Two<float>& of = Outputs::shared_sums().pair(row, warp_m() * kM + m);
      of = {of.x + low_[m][n][i], of.y + low_[m][n][i + 2]};
    }
  }
  int units_, k_tiles_;
  const uint8_t* piece_;  ///< the lane's part of the next K tile; remaining_ bytes remain
  int offset_, step_, remaining_;
  /// [panel][group][outputs g, g, g + 8, g + 8 of rows 2 t, 2 t + 1, ..]
  float sum_[kM][kN][4] = {};
  float low_[kInfo.minima ? kM : 1][kInfo.minima ? kN : 1][4] = {};
  float part_[kFormat == kBF16 ? kM : 1][kFormat == kBF16 ? kN : 1][4] = {};  ///< sums of a piece
};

template <WeightFormat kFormat, bool kSmall>
VEERY_GPU void gemm_mma(const GemmParams& a) {
  wait_for_dependencies();
  GemmMma<kFormat, gemm_mma_smem(kFormat, kSmall)>(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_GEMM_MMA_OF(X, set, name, format, least_blocks)               \
  X(set, gemm_mma_##name, GemmParams,                                           \
    (veery::gpu::gemm_mma_sm_threads(veery::gpu::format, false)), least_blocks, \
    key::gemm_mma(format, false), (gemm_mma<format, false>))                    \
  X(set, gemm_mma_small_##name, GemmParams,                                     \
    (veery::gpu::gemm_mma_sm_threads(veery::gpu::format, true)), least_blocks,  \
    key::gemm_mma(format, true), (gemm_mma<format, true>))
#define VEERY_GPU_GEMM_MMA(X, set, name, format) VEERY_GPU_GEMM_MMA_OF(X, set, name, format, 0)
#define VEERY_GPU_GEMM_MMA_KERNELS(X)                    \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMM_MMA, X, kCuda) \
  VEERY_GPU_GEMM_MMA_OF(X, kCuda, bf16, kBF16, 1)

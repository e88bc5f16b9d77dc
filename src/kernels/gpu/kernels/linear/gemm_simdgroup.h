// gemm_simdgroup.h: GEMM of quantised weights on Metal by 8 x 8 simdgroup matrices of f16 with f32
// sums. Integers up to 2,048 are exact in f16, and sums of 32 int8 products are below 2^24, so that
// they are exact in any order. The accumulation order is that of gemm_direct.h.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

/// A threadgroup has one panel of 16 outputs per warp, and kRows token rows, one per lane in the
/// epilogue. Codes are stored as f16 in squares of 8 x 8, row after row; the squares of 32 columns
/// follow each other:
///   x      [row groups of 8][kBlocks of 32 columns][4 squares], a square has a row per column of x
/// and then for each warp
///   codes  [upper and lower 8 rows of the panel][4 squares], a square has a row per weight column
///   sums   f32 [16 outputs][kRows]
struct GemmSimdgroupSmem {
  VEERY_STATIC int kWarps = 4, kThreads = 32 * kWarps;
  VEERY_STATIC int kRows = 32, kGroups = kRows / 8;
  VEERY_STATIC int kBlocks = 2;   ///< of 32 columns of x per step
  VEERY_STATIC int kSquare = 64;  ///< f16 elements
  VEERY_STATIC int kSquares = 4;  ///< of 8 rows and 32 columns
  VEERY_STATIC int kCodes =
      kGroups * kBlocks * kSquares * kSquare * 2;       ///< offset of the first warp
  VEERY_STATIC int kSums = 2 * kSquares * kSquare * 2;  ///< offset in a warp's part
  VEERY_STATIC int kWarpBytes = kSums + 16 * kRows * 4;
  VEERY_STATIC int kBytes = kCodes + kWarps * kWarpBytes;
};

namespace key {

constexpr KernelKey gemm_simdgroup(WeightFormat format, bool gated) {
  return of(Family::kGemmSimdgroup, format, RowClass::kMany, gated);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_METAL_CODE)
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// Scales or minima of the 16 rows of a panel, the same for all lanes.
template <bool kWide>
VEERY_GPU void load_of_rows(const VEERY_DEVICE uint8_t* at, VEERY_THREAD float (&v)[16]) {
  VEERY_UNROLL(8)
  for (int g = 0; g < 8; ++g) {
    if constexpr (kWide) {
      const auto both = load<Two<float>>(at + 8 * g);
      v[g] = both.x, v[8 + g] = both.y;
    } else {
      const auto both = load<Two<uint16_t>>(at + 4 * g);
      v[g] = f16_to_float(both.x), v[8 + g] = f16_to_float(both.y);
    }
  }
}

/// A warp multiplies a panel with kRows rows. Which element of a matrix a lane holds is not
/// specified, so sums go through threadgroup memory; then each lane has one row. All warps of a
/// threadgroup have the same rows and load them together.
template <WeightFormat kFormat>
class MatrixProduct {
 public:
  VEERY_STATIC WeightFormatInfo kInfo = weight_format_info(kFormat);
  VEERY_STATIC UnitLayout kLayout = unit_layout(kFormat);
  VEERY_STATIC int kHalves = kInfo.sub == 16 ? 2 : 1;  ///< of 32 columns, with separate sums
  VEERY_STATIC int kRowScales = 8 * kHalves;           ///< scales of a row in a block of 256
  using Plan = GemmSimdgroupSmem;

  /// `row`: the first of `rows` rows of the activations. A panel past the end repeats the last one.
  VEERY_GPU MatrixProduct(const VEERY_THREAD Activations& act, const VEERY_THREAD Weight& weight,
                          int panel, int row, int rows VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT act_(act),
        panel_(weight.data +
               (panel < panel_count(weight) ? panel : panel_count(weight) - 1) * weight.panel),
        blocks_(weight.cols / 32),
        row_(row),
        rows_(rows),
        groups_((rows - row + 7) / 8 < Plan::kGroups ? (rows - row + 7) / 8 : Plan::kGroups),
        layout_(activation_layout(act.kind, act.cols)),
        own_(row_at(lane())) {}

  /// Computes the products of the lane's row with the 16 outputs.
  VEERY_GPU void multiply(VEERY_THREAD float (&y)[16]) {
    for (int first = 0; first < blocks_; first += Plan::kBlocks) {
      load_blocks(first, Plan::kBlocks, layout_.codes);
      for (int b = first; b < first + Plan::kBlocks && b < blocks_; ++b) {
        if constexpr (kInfo.block == 32) {
          block<false>(b, b - first);
        } else {
          sub_block(b, b - first);
          if (b % 8 == 7) end_super_block(b / 8);
        }
      }
    }
    if constexpr (kInfo.block == 32) add_residual();
    VEERY_UNROLL(16)
    for (int n = 0; n < 16; ++n)
      y[n] = !kInfo.minima ? sum_[n] : kInfo.block == 32 ? sum_[n] + low_[n] : sum_[n] - low_[n];
  }

 private:
  VEERY_GPU RowAt row_at(int r) const {
    return {act_.data + int64_t{row_ + r < rows_ ? row_ + r : rows_ - 1} * act_.stride};
  }
  VEERY_GPU const VEERY_DEVICE uint8_t* unit(int u) const {
    return panel_ + int64_t{u} * kLayout.bytes;
  }

  VEERY_GPU VEERY_SHARED uint16_t* rows_offset() const {
    return reinterpret_cast<VEERY_SHARED uint16_t*>(shared_memory());
  }
  VEERY_GPU VEERY_SHARED uint16_t* codes_offset() const {
    return reinterpret_cast<VEERY_SHARED uint16_t*>(shared_memory() + Plan::kCodes +
                                                    warp() * Plan::kWarpBytes);
  }
  VEERY_GPU VEERY_SHARED float* sums_offset() const {
    return reinterpret_cast<VEERY_SHARED float*>(shared_memory() + Plan::kCodes +
                                                 warp() * Plan::kWarpBytes + Plan::kSums);
  }
  /// Stores columns 4 t to 4 t + 3 and 16 + 4 t to 16 + 4 t + 3 of row r of 8.
  VEERY_GPU static void store_square(VEERY_SHARED uint16_t* squares, int r, int t, uint32_t low,
                                     uint32_t high) {
    VEERY_SHARED uint16_t* const at = squares + t / 2 * Plan::kSquare + r * 8 + t % 2 * 4;
    store_bytes_as_f16(at, low);
    store_bytes_as_f16(at + 2 * Plan::kSquare, high);
  }

  /// Loads up to `count` blocks of 32 columns from `first` on, of all rows.
  VEERY_GPU void load_blocks(int first, int count, int codes_at) {
    sync_block();  // the previous blocks are no longer needed
    for (int i = thread(); i < Plan::kRows * Plan::kBlocks * 4; i += threads()) {
      const int r = i / (4 * Plan::kBlocks), b = i / 4 % Plan::kBlocks, t = i % 4;
      if (b >= count || first + b >= blocks_ || r >= 8 * groups_) continue;
      const auto codes = load<Two<uint32_t>>(row_at(r).at + codes_at + (first + b) * 32 + 8 * t);
      store_square(rows_offset() + (r / 8 * Plan::kBlocks + b) * Plan::kSquares * Plan::kSquare,
                   r % 8, t, codes.x, codes.y);
    }
    sync_block();
  }
  VEERY_GPU void load_x_tile(const VEERY_DEVICE uint8_t* fragment) {
    uint32_t a[4];
    load_fragment<kFormat>(fragment, a);
    store_square(codes_offset(), lane() / 4, lane() % 4, a[0], a[2]);
    store_square(codes_offset() + Plan::kSquares * Plan::kSquare, lane() / 4, lane() % 4, a[1],
                 a[3]);
    sync_warp();
  }

  /// Computes the sums of half h, or of all 32 columns, of the loaded block `b` of x.
  VEERY_GPU void multiply_columns(int b, int h) {
    SimdgroupF32 c[2][Plan::kGroups];
    VEERY_UNROLL(2)
    for (int m = 0; m < 2; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < Plan::kGroups; ++n) simdgroup_fill(c[m][n], 0);
    constexpr int kSteps = Plan::kSquares / kHalves;
    VEERY_UNROLL(4)
    for (int k = h * kSteps; k < (h + 1) * kSteps; ++k) {
      SimdgroupF16 upper, lower;
      simdgroup_load_tile(upper, codes_offset() + k * Plan::kSquare);
      simdgroup_load_tile(lower, codes_offset() + (Plan::kSquares + k) * Plan::kSquare);
      VEERY_UNROLL(4)
      for (int n = 0; n < Plan::kGroups; ++n) {
        if (n >= groups_) continue;
        SimdgroupF16 x;
        simdgroup_load_tile_transposed(
            x, rows_offset() + ((n * Plan::kBlocks + b) * Plan::kSquares + k) * Plan::kSquare);
        simdgroup_mma(c[0][n], upper, x);
        simdgroup_mma(c[1][n], lower, x);
      }
    }
    sync_warp();  // the previous sums and codes are no longer needed
    VEERY_UNROLL(2)
    for (int m = 0; m < 2; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < Plan::kGroups; ++n)
      if (n < groups_)
        simdgroup_store_tile(c[m][n], sums_offset() + 8 * m * Plan::kRows + 8 * n, Plan::kRows);
    sync_warp();
  }
  /// Returns the sum of the lane's row and output n.
  VEERY_GPU float sum_of(int n) const { return sums_offset()[n * Plan::kRows + lane()]; }
  VEERY_GPU bool has_row() const { return lane() < 8 * groups_; }

  // Blocks of 32

  /// Block b, which is the loaded block `at`.
  template <bool kResidual>
  VEERY_GPU void block(int b, int at) {
    const float scale = own_.floats(kResidual ? layout_.residual_scale : layout_.scale)[b];
    float less = 0, moment = 0;
    // A row without a residual in this block has garbage as its sum, which is ignored.
    if constexpr (kInfo.less != 0)
      less = static_cast<float>(static_cast<int32_t>(
          static_cast<uint32_t>(kInfo.less) *
          static_cast<uint32_t>(own_.ints(kResidual ? layout_.residual_sum : layout_.sum)[b])));
    if constexpr (kInfo.minima && !kResidual) moment = own_.floats(layout_.moment)[b];
    load_x_tile(unit(b));
    VEERY_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      float d[16];
      load_scales_of_rows(b, h, d);
      multiply_columns(at, h);
      if (!has_row() || (kResidual && !(scale > 0))) continue;
      VEERY_UNROLL(16)
      for (int n = 0; n < 16; ++n) sum_[n] = fma(d[n] * scale, sum_of(n) - less, sum_[n]);
    }
    if constexpr (kInfo.minima && !kResidual) {
      float least[16];
      load_of_rows<kInfo.wide>(unit(b) + kLayout.m, least);
      VEERY_UNROLL(16)
      for (int n = 0; n < 16; ++n) low_[n] = fma(least[n], moment, low_[n]);
    }
  }
  VEERY_GPU void load_scales_of_rows(int b, int h, VEERY_THREAD float (&d)[16]) const {
    if constexpr (has_half_scales(kFormat)) {
      VEERY_UNROLL(8)
      for (int g = 0; g < 8; ++g) {
        const auto bytes = load<Two<uint8_t>>(unit(b) + kLayout.d + g * 4 + h * 2);
        d[g] = half_scale(bytes.x), d[8 + g] = half_scale(bytes.y);
      }
    } else {
      load_of_rows<kInfo.wide>(unit(b) + kLayout.d, d);
    }
  }
  // Adds the residuals of the blocks that are outliers of any row, in order.
  VEERY_GPU void add_residual() {
    if (ballot(own_.ints(layout_.outliers)[0] > 0) == 0) return;
    for (int b = 0; b < blocks_; ++b) {
      if (ballot(own_.floats(layout_.residual_scale)[b] > 0) == 0) continue;
      load_blocks(b, 1, layout_.residual);
      block<true>(b, 0);
    }
  }

  // Blocks of 256

  VEERY_GPU void sub_block(int b, int at) {
    const int u = b / 8, s = b % 8;
    const auto* scales = reinterpret_cast<const VEERY_DEVICE int8_t*>(unit(u) + kLayout.scales);
    const VEERY_DEVICE uint8_t* minima = unit(u) + kLayout.minima;
    const int32_t times = 1 << own_.ints(layout_.shift)[b];
    const int32_t sums[2] = {own_.ints(layout_.sum)[2 * b], own_.ints(layout_.sum)[2 * b + 1]};
    load_x_tile(unit(u) + s * kLayout.fragment);
    VEERY_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      multiply_columns(at, h);
      if (!has_row()) continue;
      const int32_t own = kHalves == 2 ? sums[h] : sums[0] + sums[1];
      VEERY_UNROLL(16)
      for (int n = 0; n < 16; ++n) {
        const int i = (n % 8 * 2 + n / 8) * kRowScales + s * kHalves + h;
        all_[n] += scales[i] * static_cast<int32_t>(sum_of(n)) * times;
        if constexpr (kInfo.minima) lows_[n] += minima[i] * own;
      }
    }
  }
  // One step of the sequential accumulation.
  VEERY_GPU void end_super_block(int u) {
    const float scale = own_.floats(layout_.scale)[u];
    float d[16], least[16] = {};
    load_of_rows<kInfo.wide>(unit(u) + kLayout.d, d);
    if constexpr (kInfo.minima) load_of_rows<false>(unit(u) + kLayout.m, least);
    VEERY_UNROLL(16)
    for (int n = 0; n < 16; ++n) {
      sum_[n] = fma(d[n] * scale, static_cast<float>(all_[n]), sum_[n]);
      all_[n] = 0;
      if constexpr (!kInfo.minima) continue;
      low_[n] = fma(least[n] * scale, static_cast<float>(lows_[n]), low_[n]);
      lows_[n] = 0;
    }
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD Activations& act_;
  const VEERY_DEVICE uint8_t* panel_;
  int blocks_, row_, rows_, groups_;
  ActivationLayout layout_;
  RowAt own_;
  float sum_[16] = {}, low_[16] = {};
  int32_t all_[16] = {}, lows_[16] = {};
};

/// Exchanges the outputs of the lane's row through threadgroup memory: output lane() % 16 of rows
/// lane() / 16, 2 + lane() / 16 and so on, so that neighbours write neighbouring addresses.
VEERY_GPU void transpose_outputs(VEERY_THREAD float (&y)[16] VEERY_CONTEXT) {
  VEERY_SHARED float* offset = reinterpret_cast<VEERY_SHARED float*>(
      shared_memory() + GemmSimdgroupSmem::kCodes + warp() * GemmSimdgroupSmem::kWarpBytes +
      GemmSimdgroupSmem::kSums);
  sync_warp();
  VEERY_UNROLL(16)
  for (int n = 0; n < 16; ++n) offset[16 * lane() + n] = y[n];
  sync_warp();
  VEERY_UNROLL(16)
  for (int j = 0; j < 16; ++j) y[j] = offset[32 * j + lane()];
}

/// block_y() selects kRows rows of the activations, block_z() the weight; a warp has one panel.
/// With residual quantisation the two rows of a token row are neighbours, and so are their lanes.
template <WeightFormat kFormat, bool kGated>
VEERY_GPU void gemm_simdgroup(const VEERY_THREAD GemmParams& a VEERY_CONTEXT) {
  const int terms = a.act.residual_rows != 0 ? 2 : 1;
  const int rows = static_cast<int>(a.run.count(a.rows)) * terms;
  const int row = block_y() * GemmSimdgroupSmem::kRows;
  const int i = block_z(), panel = block_x() * warps() + warp();
  if (row >= rows) return;
  const auto multiply = [&](int weight, VEERY_THREAD float(&y)[16]) {
    MatrixProduct<kFormat> product(a.act, a.weight[weight], panel, row, rows VEERY_CONTEXT_ARG);
    product.multiply(y);
    if (terms == 2)
      for (int n = 0; n < 16; ++n) y[n] = y[n] + shuffle_xor(y[n], 1);
    transpose_outputs(y VEERY_CONTEXT_ARG);
  };
  float y[16], up[16] = {};
  multiply(i, y);
  if constexpr (kGated) multiply(1, up);
  const int output = panel * 16 + lane() % 16;
  if (output >= a.weight[i].rows) return;
  VEERY_UNROLL(16)
  for (int j = 0; j < 16; ++j) {
    const int r = row + 2 * j + lane() / 16;
    if (r < rows && r % terms == 0) finish_output(a, r / terms, i, output, y[j], up[j]);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_METAL_CODE

#define VEERY_GPU_GEMM_SIMDGROUP(X, set, name, format)                                          \
  X(set, gemm_simdgroup_##name, GemmParams, (veery::gpu::GemmSimdgroupSmem::kThreads), 0,       \
    key::gemm_simdgroup(format, false), (gemm_simdgroup<format, false>))                        \
  X(set, gemm_simdgroup_gated_##name, GemmParams, (veery::gpu::GemmSimdgroupSmem::kThreads), 0, \
    key::gemm_simdgroup(format, true), (gemm_simdgroup<format, true>))
#define VEERY_GPU_GEMM_SIMDGROUP_KERNELS(X) \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMM_SIMDGROUP, X, kMetal)

// gemm_simdgroup.h: products of several rows of x with quantised weights by matrices of 8 x 8
// halves, whose sums are f32: whole numbers of up to 2,048 are halves, and sums of 32 products of
// int8 are below 2^24, so that they are exact in any order. Then come the same chains as in
// linear.h.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/smem/gemm_simdgroup_smem.h"

namespace veery::gpu {

/// d or m of the 16 rows of a panel, which are the same for all lanes.
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

/// A panel and kRows rows of x, by a warp: which place of a matrix a lane has is not said, so sums
/// go through the memory of the block. Afterwards a lane has a row of x. All warps of a block have
/// the same rows, and bring them there together.
template <WeightFormat kFormat>
class MatrixProduct {
 public:
  VEERY_STATIC WeightFormatInfo kInfo = weight_format_info(kFormat);
  VEERY_STATIC UnitLayout kLayout = unit_layout(kFormat);
  VEERY_STATIC int kHalves = kInfo.sub == 16 ? 2 : 1;  ///< of 32 columns, with sums of their own
  VEERY_STATIC int kEach = 8 * kHalves;                ///< scales of a row in a block of 256
  using Plan = GemmSimdgroupSmem;

  /// `row`: the first, of `rows` of the form. A panel that there is not is computed as the last.
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

  /// Of the lane's row with the 16 outputs.
  VEERY_GPU void multiply(VEERY_THREAD float (&y)[16]) {
    for (int first = 0; first < blocks_; first += Plan::kBlocks) {
      bring(first, Plan::kBlocks, layout_.codes);
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
  /// Columns 4 t to 4 t + 3 and 16 + 4 t to 16 + 4 t + 3 of row r of 8.
  VEERY_GPU static void put(VEERY_SHARED uint16_t* squares, int r, int t, uint32_t low,
                            uint32_t high) {
    VEERY_SHARED uint16_t* const at = squares + t / 2 * Plan::kSquare + r * 8 + t % 2 * 4;
    store_bytes_as_f16(at, low);
    store_bytes_as_f16(at + 2 * Plan::kSquare, high);
  }

  /// Blocks of 32 columns from `first` on, as far as they are there, of all rows.
  VEERY_GPU void bring(int first, int count, int codes_at) {
    sync_block();  // nobody looks at those before them any more
    for (int i = thread(); i < Plan::kRows * Plan::kBlocks * 4; i += threads()) {
      const int r = i / (4 * Plan::kBlocks), b = i / 4 % Plan::kBlocks, t = i % 4;
      if (b >= count || first + b >= blocks_ || r >= 8 * groups_) continue;
      const auto codes = load<Two<uint32_t>>(row_at(r).at + codes_at + (first + b) * 32 + 8 * t);
      put(rows_offset() + (r / 8 * Plan::kBlocks + b) * Plan::kSquares * Plan::kSquare, r % 8, t,
          codes.x, codes.y);
    }
    sync_block();
  }
  VEERY_GPU void load_x_tile(const VEERY_DEVICE uint8_t* fragment) {
    uint32_t a[4];
    load_fragment<kFormat>(fragment, a);
    put(codes_offset(), lane() / 4, lane() % 4, a[0], a[2]);
    put(codes_offset() + Plan::kSquares * Plan::kSquare, lane() / 4, lane() % 4, a[1], a[3]);
    sync_warp();
  }

  /// Sums of half h, or of all 32 columns, of what was brought: block `b` of x.
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
        load_transposed(
            x, rows_offset() + ((n * Plan::kBlocks + b) * Plan::kSquares + k) * Plan::kSquare);
        simdgroup_mma(c[0][n], upper, x);
        simdgroup_mma(c[1][n], lower, x);
      }
    }
    sync_warp();  // nobody looks at the sums before, nor at the codes
    VEERY_UNROLL(2)
    for (int m = 0; m < 2; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < Plan::kGroups; ++n)
      if (n < groups_)
        simdgroup_store_tile(c[m][n], sums_offset() + 8 * m * Plan::kRows + 8 * n, Plan::kRows);
    sync_warp();
  }
  /// Of the lane's row with output n.
  VEERY_GPU float found(int n) const { return sums_offset()[n * Plan::kRows + lane()]; }
  VEERY_GPU bool is_there() const { return lane() < 8 * groups_; }

  // Blocks of 32

  /// Block b, which is block `at` of what was brought.
  template <bool kResidual>
  VEERY_GPU void block(int b, int at) {
    const float scale = own_.floats(kResidual ? layout_.residual_scale : layout_.scale)[b];
    float less = 0, moment = 0;
    // Of a row that has no residual of this block the sum may be anything, and is not looked at.
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
      if (!is_there() || (kResidual && !(scale > 0))) continue;
      VEERY_UNROLL(16)
      for (int n = 0; n < 16; ++n) sum_[n] = fma(d[n] * scale, found(n) - less, sum_[n]);
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
  // What outliers left over: the blocks that are outliers of any row, in order.
  VEERY_GPU void add_residual() {
    if (ballot(own_.ints(layout_.outliers)[0] > 0) == 0) return;
    for (int b = 0; b < blocks_; ++b) {
      if (ballot(own_.floats(layout_.residual_scale)[b] > 0) == 0) continue;
      bring(b, 1, layout_.residual);
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
      if (!is_there()) continue;
      const int32_t own = kHalves == 2 ? sums[h] : sums[0] + sums[1];
      VEERY_UNROLL(16)
      for (int n = 0; n < 16; ++n) {
        const int i = (n % 8 * 2 + n / 8) * kEach + s * kHalves + h;
        all_[n] += scales[i] * static_cast<int32_t>(found(n)) * times;
        if constexpr (kInfo.minima) lows_[n] += minima[i] * own;
      }
    }
  }
  // One step of the chains over blocks.
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

/// Outputs of a lane's row, by way of the block's memory: output lane() % 16 of rows lane() / 16,
/// 2 + lane() / 16 and so on, so that neighbours write what lies together.
VEERY_GPU void turn_outputs(VEERY_THREAD float (&y)[16] VEERY_CONTEXT) {
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

/// kRows rows of x, block_y() says which, and a panel a warp of weight block_z(). Rows are those of
/// the form: where x has two terms, those of a row of x are neighbours, and so are their lanes.
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
    turn_outputs(y VEERY_CONTEXT_ARG);
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

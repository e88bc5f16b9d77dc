// linear_matrices.h: products of several rows of x with quantised weights by matrices of 8 x 8
// halves, whose sums are f32: whole numbers of up to 2,048 are halves, and sums of 32 products of
// int8 are below 2^24, so that they are exact in any order. Then come the same chains as in
// linear.h.
#pragma once
#include "kernels/gpu/smem/gemm_simdgroup_smem.h"
#include "kernels/gpu/kernels/linear/gemm_direct.h"

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
      v[g] = half_to_float(both.x), v[8 + g] = half_to_float(both.y);
    }
  }
}

/// A panel and kRows rows of x, by a warp: which place of a matrix a lane has is not said, so sums
/// go through the memory of the block. Afterwards a lane has a row of x. All warps of a block have
/// the same rows, and bring them there together.
template <Format kFormat>
class MatrixProduct {
 public:
  VEERY_STATIC FormatInfo kInfo = format_info(kFormat);
  VEERY_STATIC UnitPlaces kPlaces = unit_places(kFormat);
  VEERY_STATIC int kHalves = kInfo.sub == 16 ? 2 : 1;  ///< of 32 columns, with sums of their own
  VEERY_STATIC int kEach = 8 * kHalves;                ///< scales of a row in a block of 256
  using Plan = MatrixPlan;

  /// `row`: the first, of `rows` of the form. A panel that there is not is computed as the last.
  VEERY_GPU MatrixProduct(const VEERY_THREAD Form& form, const VEERY_THREAD Weight& weight,
                          int panel, int row, int rows VEERY_HERE)
      : VEERY_HERE_KEPT form_(form),
        panel_(weight.data +
               (panel < panels_of(weight) ? panel : panels_of(weight) - 1) * weight.panel),
        blocks_(weight.cols / 32),
        row_(row),
        rows_(rows),
        groups_((rows - row + 7) / 8 < Plan::kGroups ? (rows - row + 7) / 8 : Plan::kGroups),
        places_(form_places(form.kind, form.cols)),
        own_(row_at(lane())) {}

  /// Of the lane's row with the 16 outputs.
  VEERY_GPU void multiply(VEERY_THREAD float (&y)[16]) {
    for (int first = 0; first < blocks_; first += Plan::kBlocks) {
      bring(first, Plan::kBlocks, places_.codes);
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
    return {form_.data + int64_t{row_ + r < rows_ ? row_ + r : rows_ - 1} * form_.stride};
  }
  VEERY_GPU const VEERY_DEVICE uint8_t* unit(int u) const {
    return panel_ + int64_t{u} * kPlaces.bytes;
  }

  VEERY_GPU VEERY_SHARED uint16_t* rows_place() const {
    return reinterpret_cast<VEERY_SHARED uint16_t*>(shared_memory());
  }
  VEERY_GPU VEERY_SHARED uint16_t* codes_place() const {
    return reinterpret_cast<VEERY_SHARED uint16_t*>(shared_memory() + Plan::kCodes +
                                                    warp() * Plan::kWarpBytes);
  }
  VEERY_GPU VEERY_SHARED float* sums_place() const {
    return reinterpret_cast<VEERY_SHARED float*>(shared_memory() + Plan::kCodes +
                                                 warp() * Plan::kWarpBytes + Plan::kSums);
  }
  /// Columns 4 t to 4 t + 3 and 16 + 4 t to 16 + 4 t + 3 of row r of 8.
  VEERY_GPU static void put(VEERY_SHARED uint16_t* squares, int r, int t, uint32_t low,
                            uint32_t high) {
    VEERY_SHARED uint16_t* const at = squares + t / 2 * Plan::kSquare + r * 8 + t % 2 * 4;
    put_halves(at, low);
    put_halves(at + 2 * Plan::kSquare, high);
  }

  /// Blocks of 32 columns from `first` on, as far as they are there, of all rows.
  VEERY_GPU void bring(int first, int count, int codes_at) {
    sync_block();  // nobody looks at those before them any more
    for (int i = thread(); i < Plan::kRows * Plan::kBlocks * 4; i += threads()) {
      const int r = i / (4 * Plan::kBlocks), b = i / 4 % Plan::kBlocks, t = i % 4;
      if (b >= count || first + b >= blocks_ || r >= 8 * groups_) continue;
      const auto codes = load<Two<uint32_t>>(row_at(r).at + codes_at + (first + b) * 32 + 8 * t);
      put(rows_place() + (r / 8 * Plan::kBlocks + b) * Plan::kSquares * Plan::kSquare, r % 8, t,
          codes.x, codes.y);
    }
    sync_block();
  }
  VEERY_GPU void bring_tile(const VEERY_DEVICE uint8_t* tile) {
    uint32_t a[4];
    load_tile<kFormat>(tile, a);
    put(codes_place(), lane() / 4, lane() % 4, a[0], a[2]);
    put(codes_place() + Plan::kSquares * Plan::kSquare, lane() / 4, lane() % 4, a[1], a[3]);
    sync_warp();
  }

  /// Sums of half h, or of all 32 columns, of what was brought: block `b` of x.
  VEERY_GPU void multiply_columns(int b, int h) {
    FloatMatrix c[2][Plan::kGroups];
    VEERY_UNROLL(2)
    for (int m = 0; m < 2; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < Plan::kGroups; ++n) fill_matrix(c[m][n], 0);
    constexpr int kSteps = Plan::kSquares / kHalves;
    VEERY_UNROLL(4)
    for (int k = h * kSteps; k < (h + 1) * kSteps; ++k) {
      HalfMatrix upper, lower;
      load_matrix(upper, codes_place() + k * Plan::kSquare);
      load_matrix(lower, codes_place() + (Plan::kSquares + k) * Plan::kSquare);
      VEERY_UNROLL(4)
      for (int n = 0; n < Plan::kGroups; ++n) {
        if (n >= groups_) continue;
        HalfMatrix x;
        load_transposed(
            x, rows_place() + ((n * Plan::kBlocks + b) * Plan::kSquares + k) * Plan::kSquare);
        multiply_matrices(c[0][n], upper, x);
        multiply_matrices(c[1][n], lower, x);
      }
    }
    sync_warp();  // nobody looks at the sums before, nor at the codes
    VEERY_UNROLL(2)
    for (int m = 0; m < 2; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < Plan::kGroups; ++n)
      if (n < groups_)
        store_matrix(c[m][n], sums_place() + 8 * m * Plan::kRows + 8 * n, Plan::kRows);
    sync_warp();
  }
  /// Of the lane's row with output n.
  VEERY_GPU float found(int n) const { return sums_place()[n * Plan::kRows + lane()]; }
  VEERY_GPU bool is_there() const { return lane() < 8 * groups_; }

  // Blocks of 32

  /// Block b, which is block `at` of what was brought.
  template <bool kResidual>
  VEERY_GPU void block(int b, int at) {
    const float scale = own_.floats(kResidual ? places_.residual_scale : places_.scale)[b];
    float less = 0, moment = 0;
    // Of a row that has no residual of this block the sum may be anything, and is not looked at.
    if constexpr (kInfo.less != 0)
      less = static_cast<float>(static_cast<int32_t>(
          static_cast<uint32_t>(kInfo.less) *
          static_cast<uint32_t>(own_.ints(kResidual ? places_.residual_sum : places_.sum)[b])));
    if constexpr (kInfo.minima && !kResidual) moment = own_.floats(places_.moment)[b];
    bring_tile(unit(b));
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
      load_of_rows<kInfo.wide>(unit(b) + kPlaces.m, least);
      VEERY_UNROLL(16)
      for (int n = 0; n < 16; ++n) low_[n] = fma(least[n], moment, low_[n]);
    }
  }
  VEERY_GPU void load_scales_of_rows(int b, int h, VEERY_THREAD float (&d)[16]) const {
    if constexpr (has_halves(kFormat)) {
      VEERY_UNROLL(8)
      for (int g = 0; g < 8; ++g) {
        const auto bytes = load<Two<uint8_t>>(unit(b) + kPlaces.d + g * 4 + h * 2);
        d[g] = half_scale(bytes.x), d[8 + g] = half_scale(bytes.y);
      }
    } else {
      load_of_rows<kInfo.wide>(unit(b) + kPlaces.d, d);
    }
  }
  // What outliers left over: the blocks that are outliers of any row, in order.
  VEERY_GPU void add_residual() {
    if (ballot(own_.ints(places_.outliers)[0] > 0) == 0) return;
    for (int b = 0; b < blocks_; ++b) {
      if (ballot(own_.floats(places_.residual_scale)[b] > 0) == 0) continue;
      bring(b, 1, places_.residual);
      block<true>(b, 0);
    }
  }

  // Blocks of 256

  VEERY_GPU void sub_block(int b, int at) {
    const int u = b / 8, s = b % 8;
    const auto* scales = reinterpret_cast<const VEERY_DEVICE int8_t*>(unit(u) + kPlaces.scales);
    const VEERY_DEVICE uint8_t* minima = unit(u) + kPlaces.minima;
    const int32_t times = 1 << own_.ints(places_.shift)[b];
    const int32_t sums[2] = {own_.ints(places_.sum)[2 * b], own_.ints(places_.sum)[2 * b + 1]};
    bring_tile(unit(u) + s * kPlaces.tile);
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
    const float scale = own_.floats(places_.scale)[u];
    float d[16], least[16] = {};
    load_of_rows<kInfo.wide>(unit(u) + kPlaces.d, d);
    if constexpr (kInfo.minima) load_of_rows<false>(unit(u) + kPlaces.m, least);
    VEERY_UNROLL(16)
    for (int n = 0; n < 16; ++n) {
      sum_[n] = fma(d[n] * scale, static_cast<float>(all_[n]), sum_[n]);
      all_[n] = 0;
      if constexpr (!kInfo.minima) continue;
      low_[n] = fma(least[n] * scale, static_cast<float>(lows_[n]), low_[n]);
      lows_[n] = 0;
    }
  }

  VEERY_HERE_MEMBER
  const VEERY_THREAD Form& form_;
  const VEERY_DEVICE uint8_t* panel_;
  int blocks_, row_, rows_, groups_;
  FormPlaces places_;
  RowAt own_;
  float sum_[16] = {}, low_[16] = {};
  int32_t all_[16] = {}, lows_[16] = {};
};

/// Outputs of a lane's row, by way of the block's memory: output lane() % 16 of rows lane() / 16,
/// 2 + lane() / 16 and so on, so that neighbours write what lies together.
VEERY_GPU void turn_outputs(VEERY_THREAD float (&y)[16] VEERY_HERE) {
  VEERY_SHARED float* place = reinterpret_cast<VEERY_SHARED float*>(
      shared_memory() + MatrixPlan::kCodes + warp() * MatrixPlan::kWarpBytes + MatrixPlan::kSums);
  sync_warp();
  VEERY_UNROLL(16)
  for (int n = 0; n < 16; ++n) place[16 * lane() + n] = y[n];
  sync_warp();
  VEERY_UNROLL(16)
  for (int j = 0; j < 16; ++j) y[j] = place[32 * j + lane()];
}

/// kRows rows of x, block_y() says which, and a panel a warp of weight block_z(). Rows are those of
/// the form: where x has two terms, those of a row of x are neighbours, and so are their lanes.
template <Format kFormat, bool kGated>
VEERY_GPU void linear_matrices(const VEERY_THREAD LinearArguments& a VEERY_HERE) {
  const int terms = a.form.two_terms != 0 ? 2 : 1;
  const int rows = static_cast<int>(a.run.count(a.rows)) * terms;
  const int row = block_y() * MatrixPlan::kRows;
  const int i = block_z(), panel = block_x() * warps() + warp();
  if (row >= rows) return;
  const auto multiply = [&](int weight, VEERY_THREAD float(&y)[16]) {
    MatrixProduct<kFormat> product(a.form, a.weight[weight], panel, row, rows VEERY_GO);
    product.multiply(y);
    if (terms == 2)
      for (int n = 0; n < 16; ++n) y[n] = y[n] + shuffle_xor(y[n], 1);
    turn_outputs(y VEERY_GO);
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

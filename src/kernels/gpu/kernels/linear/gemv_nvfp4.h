// row_halves.h: what an item of linear_row() adds, where each half of a block has a scale of its
// own.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/kernels/linear/gemv_quantize_x.h"

namespace veery::gpu {

/// RowSteps of blocks with a scale for each half: a step a half.
template <int kTerms>
struct RowHalves {
  static constexpr FormatInfo kInfo = format_info(kBook2);
  static constexpr UnitPlaces kPlaces = unit_places(kBook2);
  static constexpr int kUnits = row_units(kBook2);

  float factor[kUnits][2][kTerms], value[kUnits][2][kTerms];

  static VEERY_GPU int row() { return lane() / 4 + lane() % 2 * 8; }
  static VEERY_GPU bool low() { return false; }

  /// All columns of b are the block's codes, or every second one those of the second term.
  VEERY_GPU void find(const FormRow& x, const uint8_t* units, int unit, int) {
    const int t = lane() % 4;
    const uint8_t* codes = x.at + (kTerms == 2 ? lane() / 4 % 2 : 0) * x.places.bytes +
                           x.places.codes + unit * 32 + 8 * t;
    VEERY_UNROLL(8)
    for (int j = 0; j < kUnits; ++j) {
      const uint8_t* own = units + j * kPlaces.bytes;
      uint32_t tile[4];
      load_tile<kBook2>(own, tile);
      const auto b = load<Two<uint32_t>>(codes + j * 32);
      VEERY_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        int32_t c[4];
        multiply_half_tile_into(c, tile[2 * h], tile[2 * h + 1], h == 0 ? b.x : b.y);
        const float d = own_scale(own, h);
        VEERY_UNROLL(2)
        for (int term = 0; term < kTerms; ++term) {
          const auto* scale =
              reinterpret_cast<const float*>(x.at + term * x.places.bytes + x.places.scale);
          factor[j][h][term] = d * scale[unit + j];
          value[j][h][term] = static_cast<float>(t % 2 != 0 ? c[2 + term] : c[term]);
        }
      }
    }
  }
  VEERY_GPU void add(float (&sum)[kTerms], int left) const {
    VEERY_UNROLL(8)
    for (int j = 0; j < kUnits; ++j) VEERY_UNROLL(2)
    for (int h = 0; h < 2; ++h) VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term)
      if (j < left) sum[term] = fma(factor[j][h][term], value[j][h][term], sum[term]);
  }
  /// What the codes of outliers leave over. `units`: of the panel.
  static VEERY_GPU void add_residual(const FormRow& x, const uint8_t* units, float& sum) {
    const int32_t* list = x.ints(x.places.outliers);
    for (int i = 1; i <= list[0]; ++i) {
      const uint8_t* own = units + int64_t{list[i]} * kPlaces.bytes;
      uint32_t tile[4];
      load_tile<kBook2>(own, tile);
      const auto b = load<Two<uint32_t>>(x.residual() + list[i] * 32 + lane() % 4 * 8);
      const float scale = x.floats(x.places.residual_scale)[list[i]];
      VEERY_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        int32_t c[4];
        multiply_half_tile_into(c, tile[2 * h], tile[2 * h + 1], h == 0 ? b.x : b.y);
        sum =
            fma(own_scale(own, h) * scale, static_cast<float>(lane() % 2 != 0 ? c[2] : c[0]), sum);
      }
    }
  }

 private:
  static VEERY_GPU float own_scale(const uint8_t* unit, int half) {
    return half_scale(unit[kPlaces.d + lane() / 4 * 4 + half * 2 + lane() % 2]);
  }
};

}  // namespace veery::gpu

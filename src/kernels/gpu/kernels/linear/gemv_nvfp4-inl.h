// gemv_nvfp4-inl.h: the weight tile of gemv() for formats in which each half block has a scale.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/kernels/linear/gemv_quantize_x-inl.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

/// GemvTile with one step per half block.
template <int kTerms>
struct GemvTileNvfp4 {
  static constexpr WeightFormatInfo kInfo = weight_format_info(kNVFP4);
  static constexpr UnitLayout kLayout = unit_layout(kNVFP4);
  static constexpr int kUnits = gemv_tile_units(kNVFP4);

  float factor[kUnits][2][kTerms], value[kUnits][2][kTerms];

  static VEERY_GPU int row() { return lane() / 4 + lane() % 2 * 8; }
  static VEERY_GPU bool low() { return false; }

  /// All columns of B are the codes of the block. With residual quantisation every second column
  /// has the codes of the residual.
  VEERY_GPU void compute(const ActivationRow& x, const uint8_t* units, int unit, int) {
    const int t = lane() % 4;
    const uint8_t* codes = x.at + (kTerms == 2 ? lane() / 4 % 2 : 0) * x.layout.bytes +
                           x.layout.codes + unit * 32 + 8 * t;
    VEERY_UNROLL(8)
    for (int j = 0; j < kUnits; ++j) {
      const uint8_t* own = units + j * kLayout.bytes;
      uint32_t fragment[4];
      load_fragment<kNVFP4>(own, fragment);
      const auto b = load<Two<uint32_t>>(codes + j * 32);
      VEERY_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        int32_t c[4];
        mma_m16n8k16_s8_zero(c, fragment[2 * h], fragment[2 * h + 1], h == 0 ? b.x : b.y);
        const float d = lane_scale(own, h);
        VEERY_UNROLL(2)
        for (int term = 0; term < kTerms; ++term) {
          const auto* scale =
              reinterpret_cast<const float*>(x.at + term * x.layout.bytes + x.layout.scale);
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
  /// Adds the residuals of outlier blocks. `units`: of the panel.
  static VEERY_GPU void add_residual(const ActivationRow& x, const uint8_t* units, float& sum) {
    const int32_t* list = x.ints(x.layout.outliers);
    for (int i = 1; i <= list[0]; ++i) {
      const uint8_t* own = units + int64_t{list[i]} * kLayout.bytes;
      uint32_t fragment[4];
      load_fragment<kNVFP4>(own, fragment);
      const auto b = load<Two<uint32_t>>(x.residual() + list[i] * 32 + lane() % 4 * 8);
      const float scale = x.floats(x.layout.residual_scale)[list[i]];
      VEERY_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        int32_t c[4];
        mma_m16n8k16_s8_zero(c, fragment[2 * h], fragment[2 * h + 1], h == 0 ? b.x : b.y);
        sum =
            fma(lane_scale(own, h) * scale, static_cast<float>(lane() % 2 != 0 ? c[2] : c[0]), sum);
      }
    }
  }

 private:
  static VEERY_GPU float lane_scale(const uint8_t* unit, int half) {
    return half_scale(unit[kLayout.d + lane() / 4 * 4 + half * 2 + lane() % 2]);
  }
};

}  // namespace veery::gpu

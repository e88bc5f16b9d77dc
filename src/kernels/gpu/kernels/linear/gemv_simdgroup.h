// gemv_simdgroup.h: GEMV of quantised weights on Metal. Sums of blocks are dot products over the
// same weight layout as on tensor cores, and exact like theirs; the accumulation order is the same.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey gemv_simdgroup(WeightFormat format, bool gated) {
  return of(Family::kGemvSimdgroup, format, RowClass::kOne, gated);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_METAL_CODE)
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// A warp multiplies a panel with a token row. Lane 4 g + t has the columns 4 t to 4 t + 3 and 16 +
/// 4 t to 16 + 4 t + 3 of each 32, of rows g and g + 8. Lanes with an even t end up with the sum of
/// row g, the others with that of row g + 8.
template <WeightFormat kFormat>
class GemvSimdgroup {
 public:
  VEERY_STATIC WeightFormatInfo kInfo = weight_format_info(kFormat);
  VEERY_STATIC UnitLayout kLayout = unit_layout(kFormat);

  VEERY_GPU GemvSimdgroup(const VEERY_THREAD Activations& act, const VEERY_THREAD Weight& weight,
                          int panel)
      : panel_(weight.data + panel * weight.panel),
        units_(weight.cols / kInfo.block),
        layout_(activation_layout(act.kind, act.cols)),
        x_{act.data} {}

  /// Returns row lane() / 4 of the panel, in odd lanes the row 8 further down.
  VEERY_GPU float multiply() {
    if constexpr (kInfo.block == 32) {
      VEERY_UNROLL(4)
      for (int b = 0; b < units_; ++b) block(b);
      const VEERY_DEVICE int32_t* list = x_.ints(layout_.outliers);
      for (int i = 0; i < list[0]; ++i) residual(list[1 + i]);
      return kInfo.minima ? sum_ + low_ : sum_;
    } else {
      for (int u = 0; u < units_; ++u) super_block(u);
      return kInfo.minima ? sum_ - low_ : sum_;
    }
  }

 private:
  VEERY_GPU const VEERY_DEVICE uint8_t* unit(int u) const {
    return panel_ + int64_t{u} * kLayout.bytes;
  }
  VEERY_GPU static bool is_odd() { return lane() % 2 != 0; }
  VEERY_GPU static float own(const VEERY_THREAD Two<float>& of) { return is_odd() ? of.y : of.x; }
  // Adds up the lanes of a row, for both rows.
  VEERY_GPU static int32_t sum_over_lanes(int32_t upper, int32_t lower) {
    const int32_t two = (is_odd() ? lower : upper) + shuffle_xor(is_odd() ? upper : lower, 1);
    return two + shuffle_xor(two, 2);
  }
  VEERY_GPU int32_t block_sum(int b, int codes_at) const {
    uint32_t fragment[4];
    load_fragment<kFormat>(unit(b), fragment);
    const auto codes = load<Two<uint32_t>>(x_.at + codes_at + b * 32 + lane() % 4 * 8);
    return sum_over_lanes(dot4_s8(dot4_s8(0, fragment[0], codes.x), fragment[2], codes.y),
                          dot4_s8(dot4_s8(0, fragment[1], codes.x), fragment[3], codes.y));
  }
  // One step per half block, if each half has a scale.
  VEERY_GPU void add_halves(int b, int codes_at, float scale) {
    uint32_t fragment[4];
    load_fragment<kFormat>(unit(b), fragment);
    const auto codes = load<Two<uint32_t>>(x_.at + codes_at + b * 32 + lane() % 4 * 8);
    VEERY_UNROLL(2)
    for (int h = 0; h < 2; ++h) {
      const uint32_t of = h == 0 ? codes.x : codes.y;
      const int32_t c =
          sum_over_lanes(dot4_s8(0, fragment[2 * h], of), dot4_s8(0, fragment[2 * h + 1], of));
      sum_ = fma(own(load_scales<kFormat>(unit(b), h)) * scale, static_cast<float>(c), sum_);
    }
  }
  VEERY_GPU void block(int b) {
    if constexpr (has_half_scales(kFormat))
      return add_halves(b, layout_.codes, x_.floats(layout_.scale)[b]);
    const int32_t less = kInfo.less != 0 ? kInfo.less * x_.ints(layout_.sum)[b] : 0;
    const int32_t c = block_sum(b, layout_.codes) - less;
    sum_ = fma(own(load_scales<kFormat>(unit(b))) * x_.floats(layout_.scale)[b],
               static_cast<float>(c), sum_);
    if constexpr (kInfo.minima)
      low_ = fma(own(load_minima<kFormat>(unit(b))), x_.floats(layout_.moment)[b], low_);
  }
  // Adds the residual of an outlier block.
  VEERY_GPU void residual(int b) {
    if constexpr (has_half_scales(kFormat))
      return add_halves(b, layout_.residual, x_.floats(layout_.residual_scale)[b]);
    const int32_t less = kInfo.less != 0 ? kInfo.less * x_.ints(layout_.residual_sum)[b] : 0;
    const int32_t c = block_sum(b, layout_.residual) - less;
    sum_ = fma(own(load_scales<kFormat>(unit(b))) * x_.floats(layout_.residual_scale)[b],
               static_cast<float>(c), sum_);
  }

  VEERY_GPU void super_block(int u) {
    constexpr int kHalves = 32 / kInfo.sub, kRowScales = 8 * kHalves;
    const int g = lane() / 4, t = lane() % 4;
    const auto* scales =
        reinterpret_cast<const VEERY_DEVICE int8_t*>(unit(u) + kLayout.scales) + 2 * g * kRowScales;
    const VEERY_DEVICE uint8_t* minima =
        unit(u) + kLayout.minima + (2 * g + (is_odd() ? 1 : 0)) * kRowScales;
    int32_t upper = 0, lower = 0, lows = 0;
    VEERY_UNROLL(8)
    for (int s = 0; s < 8; ++s) {
      uint32_t fragment[4];
      load_fragment<kFormat>(unit(u) + s * kLayout.fragment, fragment);
      const auto codes = load<Two<uint32_t>>(x_.at + layout_.codes + u * 256 + s * 32 + 8 * t);
      const int32_t times = 1 << x_.ints(layout_.shift)[u * 8 + s];
      const int32_t sums[2] = {x_.ints(layout_.sum)[u * 16 + s * 2],
                               x_.ints(layout_.sum)[u * 16 + s * 2 + 1]};
      if constexpr (kHalves == 1) {
        upper +=
            scales[s] * times * dot4_s8(dot4_s8(0, fragment[0], codes.x), fragment[2], codes.y);
        lower += scales[kRowScales + s] * times *
                 dot4_s8(dot4_s8(0, fragment[1], codes.x), fragment[3], codes.y);
        if constexpr (kInfo.minima) lows += minima[s] * (sums[0] + sums[1]);
      } else {
        upper += times * (scales[2 * s] * dot4_s8(0, fragment[0], codes.x) +
                          scales[2 * s + 1] * dot4_s8(0, fragment[2], codes.y));
        lower += times * (scales[kRowScales + 2 * s] * dot4_s8(0, fragment[1], codes.x) +
                          scales[kRowScales + 2 * s + 1] * dot4_s8(0, fragment[3], codes.y));
        if constexpr (kInfo.minima) lows += minima[2 * s] * sums[0] + minima[2 * s + 1] * sums[1];
      }
    }
    const float scale = x_.floats(layout_.scale)[u];
    sum_ = fma(own(load_scales<kFormat>(unit(u))) * scale,
               static_cast<float>(sum_over_lanes(upper, lower)), sum_);
    if constexpr (kInfo.minima)
      low_ = fma(own(load_f16_pair(unit(u) + kLayout.m)) * scale, static_cast<float>(lows), low_);
  }

  const VEERY_DEVICE uint8_t* panel_;
  int units_;
  ActivationLayout layout_;
  RowAt x_;
  float sum_ = 0, low_ = 0;
};

/// One panel per warp; block_z() selects the weight.
template <WeightFormat kFormat, bool kGated>
VEERY_GPU void gemv_simdgroup(const VEERY_THREAD GemmParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int i = block_z(), panel = block_x() * warps() + warp();
  if (a.run.count(a.rows) == 0 || panel >= panel_count(a.weight[i])) return;
  GemvSimdgroup<kFormat> product(a.act, a.weight[i], panel);
  const float y = product.multiply();
  float up = 0;
  if constexpr (kGated) {
    GemvSimdgroup<kFormat> second(a.act, a.weight[1], panel);
    up = second.multiply();
  }
  const int output = panel * 16 + lane() / 4 + lane() % 2 * 8;
  if (lane() % 4 < 2 && output < a.weight[i].rows) finish_output(a, 0, i, output, y, up);
}

}  // namespace veery::gpu
#endif  // VEERY_METAL_CODE

#define VEERY_GPU_GEMV_SIMDGROUP(X, set, name, format)                                       \
  X(set, gemv_simdgroup_##name, GemmParams, 128, 0, key::gemv_simdgroup(format, false),      \
    (gemv_simdgroup<format, false>))                                                         \
  X(set, gemv_simdgroup_gated_##name, GemmParams, 128, 0, key::gemv_simdgroup(format, true), \
    (gemv_simdgroup<format, true>))
#define VEERY_GPU_GEMV_SIMDGROUP_KERNELS(X) \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMV_SIMDGROUP, X, kMetal)

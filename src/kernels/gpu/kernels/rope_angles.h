// rope_angles.h: angles of rotary position embeddings, computed in f64.
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

struct RopeAnglesParams {
  Run run;
  const VEERY_DEVICE Float64 *usual, *extended;  ///< radians per position; extended may be nullptr
  Float64 magnitude;
  const VEERY_DEVICE int32_t* positions;
  const VEERY_DEVICE int32_t* is_extended;  ///< [rows] not 0: `extended`; nullptr without that
  Matrix out;
  /// Instead of `magnitude`: one for each multiple of the context.
  const VEERY_DEVICE Float64* magnitudes;
  Float64 context;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
namespace veery::gpu {

/// Returns a polynomial's coefficient, given by its bits.
VEERY_GPU Float64 coefficient(uint64_t bits) { return bits_to_double(static_cast<int64_t>(bits)); }

struct SinCos {
  Float64 sin, cos;
};
// The operations are those of kernels/cpu/rows/rope.cc.
VEERY_GPU SinCos sin_cos(Float64 x) {
  const Float64 round = coefficient(0x4338000000000000U);                // 3 * 2^51
  const Float64 shifted = x * coefficient(0x3fe45f306dc9c883U) + round;  // 2 / pi
  const Float64 n = shifted - round;
  const int64_t quadrant = float_to_bits(shifted);
  Float64 r = fma(n, coefficient(0xbff921fb54442d18U), x);  // -pi / 2 in two parts
  r = fma(n, coefficient(0xbc91a62633145c07U), r);
  const Float64 z = r * r;
  Float64 s = fma(z, coefficient(0xbe5ae64567f544e4U), coefficient(0x3ec71de3a556c734U));
  s = fma(z, s, coefficient(0xbf2a01a01a01a01aU));  // -1 / 5040
  s = fma(z, s, coefficient(0x3f81111111111111U));  // 1 / 120
  s = fma(z, s, coefficient(0xbfc5555555555555U));  // -1 / 6
  s = fma(z * r, s, r);
  Float64 c = fma(z, coefficient(0x3e21eed8eff8d898U), coefficient(0xbe927e4fb7789f5cU));
  c = fma(z, c, coefficient(0x3efa01a01a01a01aU));  // 1 / 40320
  c = fma(z, c, coefficient(0xbf56c16c16c16c17U));  // -1 / 720
  c = fma(z, c, coefficient(0x3fa5555555555555U));  // 1 / 24
  c = fma(z, c, coefficient(0xbfe0000000000000U));  // -1 / 2
  c = fma(z, c, coefficient(0x3ff0000000000000U));
  const Float64 first = (quadrant & 1) != 0 ? c : s;
  const Float64 second = (quadrant & 1) != 0 ? s : c;
  return {(quadrant & 2) != 0 ? -first : first, ((quadrant + 1) & 2) != 0 ? -second : second};
}
VEERY_GPU void rope_angles(const VEERY_THREAD RopeAnglesParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const VEERY_DEVICE Float64* frequency =
      a.is_extended != nullptr && a.is_extended[r] != 0 ? a.extended : a.usual;
  const Float64 position = to_f64(a.positions[r]);
  const Float64 magnitude = a.magnitudes == nullptr
                                ? a.magnitude
                                : load_f64(a.magnitudes + whole_part(position / a.context));
  for (int i = thread(); i < a.out.cols / 2; i += threads()) {
    const SinCos at = sin_cos(position * load_f64(frequency + i));
    a.out.row(r)[2 * i] = to_f32(at.cos * magnitude);
    a.out.row(r)[2 * i + 1] = to_f32(at.sin * magnitude);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ROPE_ANGLES_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kShared, rope_angles, RopeAnglesParams, 64)

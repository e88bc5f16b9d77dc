// formulas.h: scalar versions of the functions of kernels/cpu/simd/simd-inl.h, with the same
// operations and therefore the same bits. Formulas and sources are documented there.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// The kernel parameters for an ActivateAttr.
struct ActivationParams {
  int32_t kind;
  float positive, negative, beta, eps;
};

VEERY_GPU float exp_clamped(float x) {
  const float clamped = max_f32(-87.3F, x);
  const int n = round_to_int(clamped * 1.44269504F);
  const auto nf = static_cast<float>(n);
  float r = fma(nf, -0.693359375F, clamped);
  r = fma(nf, 2.12194440e-4F, r);
  float p = 0.0013926926767453551F;
  p = fma(p, r, 0.008363774046301842F);
  p = fma(p, r, 0.04166654869914055F);
  p = fma(p, r, 0.16666573286056519F);
  p = fma(p, r, 0.5F);
  p = fma(r * r, p, r + 1.0F);
  const float scale = bits_to_float(static_cast<int32_t>(static_cast<uint32_t>(n + 127) << 23));
  return -87.3F > x ? 0.0F : p * scale;
}
VEERY_GPU float exp_f32(float x) {
  return x > 88.0F ? bits_to_float(0x7f800000) : exp_clamped(min_f32(88.0F, x));
}
VEERY_GPU float sigmoid(float x) { return 1.0F / (1.0F + exp_f32(negative(x))); }
VEERY_GPU float silu(float x) { return x / (1.0F + exp_f32(negative(x))); }
VEERY_GPU float softplus(float x) {
  const float t = exp_f32(negative(magnitude(x)));
  const float z = t / (2.0F + t);
  const float s = z * z;
  float p = 2.0F / 15;
  p = fma(p, s, 2.0F / 13);
  p = fma(p, s, 2.0F / 11);
  p = fma(p, s, 2.0F / 9);
  p = fma(p, s, 2.0F / 7);
  p = fma(p, s, 2.0F / 5);
  p = fma(p, s, 2.0F / 3);
  p = fma(p, s, 2.0F);
  return fma(z, p, max_f32(0.0F, x));
}
VEERY_GPU float gelu(float x) {
  const float cube = x * x * x;
  const float u2 = 1.5957691216F * fma(0.044715F, cube, x);
  return x / (1.0F + exp_f32(negative(u2)));
}
VEERY_GPU float gelu_erf(float x) {
  const float t = 1.0F / fma(magnitude(x), 0.3275911F * 0.70710678F, 1.0F);
  float p = -0.14277875423431396F;
  p = fma(p, t, 0.5034728646278381F);
  p = fma(p, t, -0.4174523651599884F);
  p = fma(p, t, 0.4637708067893982F);
  p = fma(p, t, 0.019883906468749046F);
  p = fma(p, t, 0.20757609605789185F);
  p = fma(p, t, 0.18045619130134583F);
  p = fma(p, t, 0.18507124483585358F);
  const float e = exp_f32(x * x * -0.5F);
  const float below = t * 0.5F * p * e;
  return x * (x > 0.0F ? 1.0F - below : below);
}
VEERY_GPU float tanh_f32(float x) {
  const float a = magnitude(x);
  const float z = x * x;
  float p = 0.002292717806994915F;
  p = fma(p, z, -0.00834391638636589F);
  p = fma(p, z, 0.021768907085061073F);
  p = fma(p, z, -0.053959257900714874F);
  p = fma(p, z, 0.13333304226398468F);
  p = fma(p, z, -0.3333333432674408F);
  const float small = fma(x * z, p, x);
  const float t = exp_f32(-2.0F * a);
  const float large = (1.0F - t) / (1.0F + t);
  return a > 0.625F ? bits_to_float(float_to_bits(large) | (float_to_bits(x) & INT32_MIN)) : small;
}

/// Applies an activation; kinds are numbered as in veery::Activation.
VEERY_GPU float activated(float x, const VEERY_THREAD ActivationParams& a) {
  switch (a.kind) {
    case 1: return silu(x);
    case 2: return gelu(x);
    case 3: return gelu_erf(x);
    case 4: return max_f32(0.0F, x);
    case 5: return max_f32(0.0F, x) * max_f32(0.0F, x);
    case 6: {
      const float above = a.positive * x * x;
      const float below = exp_f32(min_f32(a.eps, x)) - 1.0F - x;
      return (x > 0.0F ? above : a.negative * below) + a.beta * x;
    }
    case 7: return tanh_f32(x);
    case 8: return sigmoid(x);
    case 9: return softplus(x);
    case 10: return negative(softplus(negative(x)));
    case 11: return min_f32(a.positive, max_f32(a.negative, x));
    default: return x;
  }
}

/// Returns the value of an e4m3.
VEERY_GPU float e4m3_to_float(uint32_t x) {
  return bits_to_float(static_cast<int32_t>((x & 0x80U) << 24 | (x & 0x7fU) << 20)) * 0x1p120F;
}
/// Returns half the value of an unsigned e4m3: the scale of NVFP4, whose codes are doubled.
VEERY_GPU float half_scale(uint32_t x) {
  return bits_to_float(static_cast<int32_t>(x << 20)) * 0x1p119F;
}
/// Returns twice the value of an MXFP4 code.
VEERY_GPU int mxfp4_value(int code) {
  const int low = code & 7;
  const int value = low < 5 ? low : 4 << (low - 4) / 2 | (low == 5 ? 2 : low == 7 ? 4 : 0);
  return (code & 8) != 0 ? -value : value;
}

/// exp(x) for x <= 0 with the bits of kernels/common/softmax_mass.h.
VEERY_GPU float exp_softmax_mass(float x) {
  const float clamped = x > -87.0F ? x : -87.0F;
  const float shifted = clamped * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float f = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  const float series =
      1.0F +
      f * (1.0F +
           f * (1.0F / 2 + f * (1.0F / 6 + f * (1.0F / 24 + f * (1.0F / 120 + f * (1.0F / 720))))));
  const uint32_t exponent = (static_cast<uint32_t>(float_to_bits(shifted)) + 127U) << 23;
  return series * bits_to_float(static_cast<int32_t>(exponent));
}

/// Returns a key that orders floats, and equal floats by descending index, so that the largest key
/// belongs to the first of the largest numbers. The key of NaN is 0.
VEERY_GPU uint64_t order_key(float value, int32_t index) {
  if (!(value == value)) return 0;
  const int32_t bits = float_to_bits(value + 0.0F);  // -0 becomes +0
  const uint32_t ordered =
      bits < 0 ? ~static_cast<uint32_t>(bits) : static_cast<uint32_t>(bits) | 0x80000000U;
  return static_cast<uint64_t>(ordered) << 32 | static_cast<uint32_t>(~index);
}
VEERY_GPU int32_t order_key_index(uint64_t key) {
  return key == 0 ? 0 : static_cast<int32_t>(~static_cast<uint32_t>(key));
}

}  // namespace veery::gpu

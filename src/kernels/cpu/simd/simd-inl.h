// simd-inl.h: vectors of 16 lanes for every instruction set. Code on these vectors computes the
// same bits on every machine: each operation is correctly rounded or integer, and sums over lanes
// have a fixed order.
#if defined(VEERY_KERNELS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_SIMD_INL_H
#undef VEERY_KERNELS_CPU_SIMD_INL_H
#else
#define VEERY_KERNELS_CPU_SIMD_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "dtype/target-inl.h"

// Highway's feature list for this target includes AVX-VNNI, which Ice Lake lacks, and omits
// AVX512-VNNI.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni"
#endif
// Highway has no target for AVX2 with AVX-VNNI. Its SSE4 target, which veery does not use, is
// redefined for that.
#if HWY_TARGET == HWY_SSE4
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX2 ",avxvnni"
#endif
// Likewise its SVE target is redefined as NEON with int8 dot products.
#if HWY_TARGET == HWY_SVE
#undef HWY_TARGET_STR
#define HWY_TARGET_STR "arch=armv8.2-a+dotprod"
#endif

// Every instruction set provides (in namespace veery::HWY_NAMESPACE):
//   F32, I32       16 lanes; I32 also serves as 64 bytes and as 32 int16
//   Mask           16 lanes
//   load, load_first (n lanes, rest zero), store, store_first; load_f16, load_bf16, load_i8 (16
//   values to 16 lanes), store_f16 (to nearest even), store_i8 (low bytes)
//   set, zero; add, sub, mul, div, fma (a * b + c, one rounding), min, max (the second operand if
//   one is NaN), sqrt; greater, select; to_int (nearest even; 0x80000000 if out of range), to_float
//   add, sub, mul, bit_and, bit_or, bit_xor, shl, shr, sar (32-bit lanes; shl also
//   by a vector of counts), shl16, shr16, sar16;
//   bits; load_u8 (16 values to 16 lanes)
//   lookup(table, i)  bytes: table[i] in each 16 bytes, i < 16
//   dot4(acc, u, s)   lanes: acc + sum of 4 products u8 x i8; u <= 127, because NEON multiplies
//                     signed bytes, and without VNNI pair sums u0 s0 + u1 s1 have to fit int16
//   dot4_wide         the same for any u8; multiplies u - 128 instead of u if kWideIsSigned
//   dot4_signed       the same for i8 x i8, s within +-127
//   dot2(acc, a, b)   lanes: acc + sum of 2 products i16 x i16
//   kInRegisters      false: F32 and I32 are arrays in memory
// This file builds on them: sum and max_of (fixed trees), exp, silu, sigmoid, gelu, gelu_erf, tanh.

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#include "kernels/cpu/simd/simd_avx512-inl.h"
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
#include "kernels/cpu/simd/simd_avx2-inl.h"
#elif HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_SVE
#include "kernels/cpu/simd/simd_neon-inl.h"
#else
#include "kernels/cpu/simd/simd_scalar-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Calls fn with std::integral_constant 0 to n - 1.
template <int... kIndex, typename Fn>
HWY_INLINE void unroll(std::integer_sequence<int, kIndex...>, Fn&& fn) {
  (fn(std::integral_constant<int, kIndex>{}), ...);
}
template <int n, typename Fn>
HWY_INLINE void unroll(Fn&& fn) {
  unroll(std::make_integer_sequence<int, n>{}, fn);
}

// sum() adds lane i and lane i + 8, then i + 4, i + 2, i + 1. max_of() uses the same tree.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_SSE4
HWY_INLINE float sum(F32 v) {
  const __m256 a = _mm256_add_ps(lower(v), upper(v));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
HWY_INLINE int32_t sum(I32 v) {
  const __m256i a = _mm256_add_epi32(lower(v), upper(v));
  __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  b = _mm_add_epi32(b, _mm_unpackhi_epi64(b, b));
  return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 1)));
}
HWY_INLINE float max_of(F32 v) {
  const __m256 a = _mm256_max_ps(lower(v), upper(v));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
#elif HWY_TARGET != HWY_NEON && HWY_TARGET != HWY_SVE
HWY_INLINE float sum(F32 v) {
  alignas(64) float x[16];
  store(x, v);
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) x[i] += x[i + step];
  return x[0];
}
HWY_INLINE int32_t sum(I32 v) {
  alignas(64) int32_t x[16];
  store_int(x, v);
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) x[i] += x[i + step];
  return x[0];
}
HWY_INLINE float max_of(F32 v) {
  alignas(64) float x[16];
  store(x, v);
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) x[i] = x[i] > x[i + step] ? x[i] : x[i + step];
  return x[0];
}
#endif
HWY_INLINE F32 abs(F32 v) { return as_float(bit_and(bits(v), set(int32_t{0x7fffffff}))); }
HWY_INLINE F32 neg(F32 v) { return as_float(bit_xor(bits(v), set(INT32_MIN))); }
/// Flushes subnormal numbers to 0.
HWY_INLINE F32 flush(F32 v) { return select(greater(set(0x1p-126F), abs(v)), zero(), v); }
/// Rounds to bf16, to nearest even; the bf16 bits are in the upper half of each lane. NaN stays
/// NaN.
HWY_INLINE I32 round_to_bf16(F32 x) {
  const I32 v = bits(x);
  const I32 magnitude = bit_and(v, set(int32_t{0x7fffffff}));
  const I32 nan = sar<31>(sub(set(int32_t{0x7f800000}), magnitude));  // all ones or zeros
  const I32 odd = bit_and(shr<16>(v), set(int32_t{1}));
  const I32 half = bit_and(add(odd, set(int32_t{0x7fff})), bit_xor(nan, set(int32_t{-1})));
  return bit_and(bit_or(add(v, half), bit_and(nan, set(int32_t{0x400000}))),
                 set(static_cast<int32_t>(0xffff0000)));
}

/// Returns e^x for x <= 88 with a relative error below 2e-7; 0 below -87.3; NaN for NaN.
/// x = n ln 2 + r, |r| <= ln 2 / 2; e^r is a polynomial fitted at Chebyshev nodes.
HWY_INLINE F32 exp_to_88(F32 x) {
  const F32 clamped = max(set(-87.3F), x);
  const I32 n = to_int(mul(clamped, set(1.44269504F)));
  const F32 nf = to_float(n);
  F32 r = fma(nf, set(-0.693359375F), clamped);
  r = fma(nf, set(2.12194440e-4F), r);
  F32 p = set(0.0013926926767453551F);
  p = fma(p, r, set(0.008363774046301842F));
  p = fma(p, r, set(0.04166654869914055F));
  p = fma(p, r, set(0.16666573286056519F));
  p = fma(p, r, set(0.5F));
  p = fma(mul(r, r), p, add(r, set(1.0F)));
  const F32 scale = as_float(shl<23>(add(n, set(int32_t{127}))));
  return select(greater(set(-87.3F), x), zero(), mul(p, scale));
}
/// Returns e^x for any x; infinity above 88.
HWY_INLINE F32 exp(F32 x) {
  return select(greater(x, set(88.0F)), set(HUGE_VALF), exp_to_88(min(set(88.0F), x)));
}
/// x / (1 + e^-x)
HWY_INLINE F32 silu(F32 x) { return div(x, add(set(1.0F), exp(neg(x)))); }
HWY_INLINE F32 sigmoid(F32 x) { return div(set(1.0F), add(set(1.0F), exp(neg(x)))); }
/// Returns ln(1 + e^x) with a relative error below 1e-6. With t = e^-|x|, ln(1 + t) = 2 artanh(z),
/// z = t / (2 + t) <= 1/3, computed by the series of artanh.
HWY_INLINE F32 softplus(F32 x) {
  const F32 t = exp(neg(abs(x)));
  const F32 z = div(t, add(set(2.0F), t));
  const F32 s = mul(z, z);
  F32 p = set(2.0F / 15);
  p = fma(p, s, set(2.0F / 13));
  p = fma(p, s, set(2.0F / 11));
  p = fma(p, s, set(2.0F / 9));
  p = fma(p, s, set(2.0F / 7));
  p = fma(p, s, set(2.0F / 5));
  p = fma(p, s, set(2.0F / 3));
  p = fma(p, s, set(2.0F));
  return fma(z, p, max(zero(), x));
}
/// GELU by the tanh approximation: x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3),
/// computed as x / (1 + e^-2u).
HWY_INLINE F32 gelu(F32 x) {
  const F32 cube = mul(mul(x, x), x);
  const F32 u2 = mul(set(1.5957691216F), fma(set(0.044715F), cube, x));
  return div(x, add(set(1.0F), exp(neg(u2))));
}
/// Exact GELU: x F(x), F being the normal distribution function. F(-|x|) = t P(t) e^(-x^2 / 2) / 2
/// with t = 1 / (1 + 0.3275911 |x| / sqrt 2), the shape of Abramowitz and Stegun 7.1.26. P is
/// fitted at Chebyshev nodes to a relative error of 2e-7.
HWY_INLINE F32 gelu_erf(F32 x) {
  const F32 t = div(set(1.0F), fma(abs(x), set(0.3275911F * 0.70710678F), set(1.0F)));
  F32 p = set(-0.14277875423431396F);
  p = fma(p, t, set(0.5034728646278381F));
  p = fma(p, t, set(-0.4174523651599884F));
  p = fma(p, t, set(0.4637708067893982F));
  p = fma(p, t, set(0.019883906468749046F));
  p = fma(p, t, set(0.20757609605789185F));
  p = fma(p, t, set(0.18045619130134583F));
  p = fma(p, t, set(0.18507124483585358F));
  const F32 e = exp(mul(mul(x, x), set(-0.5F)));
  const F32 below = mul(mul(mul(t, set(0.5F)), p), e);
  return mul(x, select(greater(x, zero()), sub(set(1.0F), below), below));
}
/// tanh with a relative error below 1e-6: a polynomial for |x| <= 0.625, else
/// (1 - e^-2|x|) / (1 + e^-2|x|).
HWY_INLINE F32 tanh(F32 x) {
  const F32 a = abs(x);
  const F32 z = mul(x, x);
  F32 p = set(0.002292717806994915F);
  p = fma(p, z, set(-0.00834391638636589F));
  p = fma(p, z, set(0.021768907085061073F));
  p = fma(p, z, set(-0.053959257900714874F));
  p = fma(p, z, set(0.13333304226398468F));
  p = fma(p, z, set(-0.3333333432674408F));
  const F32 small = fma(mul(x, z), p, x);
  const F32 t = exp(mul(set(-2.0F), a));
  const F32 large = div(sub(set(1.0F), t), add(set(1.0F), t));
  const F32 with_sign = as_float(bit_or(bits(large), bit_and(bits(x), set(INT32_MIN))));
  return select(greater(a, set(0.625F)), with_sign, small);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_SIMD_INL_H

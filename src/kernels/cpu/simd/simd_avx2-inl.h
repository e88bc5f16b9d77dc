// simd_avx2-inl.h: the vectors of simd-inl.h in two 256-bit registers. Included by that file only.

// GCC 12 reports the deliberately undefined vectors of its AVX-512 intrinsics as uninitialised
// wherever they are inlined, unless the warning is disabled at the first inclusion of immintrin.h
// (https://github.com/google/highway/issues/710).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

constexpr bool kInRegisters = true;

struct F32 {
  __m256 a, b;
};
struct I32 {
  __m256i a, b;
};
using Mask = F32;  // all bits of a lane are equal

HWY_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

HWY_INLINE F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
HWY_INLINE F32 load_first(const float* p, int n) {
  return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}
HWY_INLINE void store(float* p, F32 v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
HWY_INLINE void store_first(float* p, F32 v, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), v.a);
  _mm256_maskstore_ps(p + 8, first_lanes(n - 8), v.b);
}
HWY_INLINE I32 load_int(const void* p) {
  const auto* v = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
HWY_INLINE void store_int(void* p, I32 v) {
  auto* out = static_cast<__m256i*>(p);
  _mm256_storeu_si256(out, v.a);
  _mm256_storeu_si256(out + 1, v.b);
}
HWY_INLINE F32 load_f16(const void* p) {
  const auto* v = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(v)), _mm256_cvtph_ps(_mm_loadu_si128(v + 1))};
}
HWY_INLINE void store_f16(void* p, F32 v) {
  auto* out = static_cast<__m128i*>(p);
  _mm_storeu_si128(out, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(out + 1, _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HWY_INLINE F32 load_bf16(const void* p) {
  const auto* v = static_cast<const __m128i*>(p);
  const __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(v));
  const __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(v + 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
}
HWY_INLINE void store_u16(void* p, I32 v) {
  const __m256i low = _mm256_set1_epi32(0xffff);
  const __m256i packed =
      _mm256_packus_epi32(_mm256_and_si256(v.a, low), _mm256_and_si256(v.b, low));
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
HWY_INLINE I32 load_i8(const void* p) {
  const __m128i v = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8))};
}
HWY_INLINE void store_i8(void* p, I32 v) {
  alignas(32) uint16_t words[16];
  store_u16(words, v);
  const __m128i low = _mm_set1_epi16(0xff);
  const __m128i a = _mm_and_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(words)), low);
  const __m128i b = _mm_and_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(words + 8)), low);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packus_epi16(a, b));
}

HWY_INLINE __m256 lower(F32 x) { return x.a; }
HWY_INLINE __m256 upper(F32 x) { return x.b; }
HWY_INLINE F32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
HWY_INLINE I32 zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
HWY_INLINE F32 set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HWY_INLINE I32 set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
HWY_INLINE F32 add(F32 x, F32 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
HWY_INLINE F32 sub(F32 x, F32 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
HWY_INLINE F32 mul(F32 x, F32 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
HWY_INLINE F32 div(F32 x, F32 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
HWY_INLINE F32 fma(F32 x, F32 y, F32 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
HWY_INLINE F32 min(F32 x, F32 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
HWY_INLINE F32 max(F32 x, F32 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
HWY_INLINE F32 sqrt(F32 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
HWY_INLINE Mask greater(F32 x, F32 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)};
}
HWY_INLINE F32 select(Mask m, F32 yes, F32 no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
HWY_INLINE I32 to_int(F32 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
HWY_INLINE F32 to_float(I32 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
HWY_INLINE __m256i lower(I32 v) { return v.a; }
HWY_INLINE __m256i upper(I32 v) { return v.b; }
HWY_INLINE I32 bits(F32 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
HWY_INLINE F32 as_float(I32 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }

HWY_INLINE I32 add(I32 x, I32 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
HWY_INLINE I32 sub(I32 x, I32 y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
HWY_INLINE I32 mul(I32 x, I32 y) {
  return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)};
}
HWY_INLINE I32 bit_and(I32 x, I32 y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
HWY_INLINE I32 bit_or(I32 x, I32 y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
HWY_INLINE I32 bit_xor(I32 x, I32 y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
HWY_INLINE I32 shl(I32 x, I32 n) {
  return {_mm256_sllv_epi32(x.a, n.a), _mm256_sllv_epi32(x.b, n.b)};
}
template <int kBits>
HWY_INLINE I32 shl(I32 x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
HWY_INLINE I32 shr(I32 x) {
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
template <int kBits>
HWY_INLINE I32 sar(I32 x) {
  return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
template <int kBits>
HWY_INLINE I32 shl16(I32 x) {
  return {_mm256_slli_epi16(x.a, kBits), _mm256_slli_epi16(x.b, kBits)};
}
template <int kBits>
HWY_INLINE I32 shr16(I32 x) {
  return {_mm256_srli_epi16(x.a, kBits), _mm256_srli_epi16(x.b, kBits)};
}
template <int kBits>
HWY_INLINE I32 sar16(I32 x) {
  return {_mm256_srai_epi16(x.a, kBits), _mm256_srai_epi16(x.b, kBits)};
}

HWY_INLINE I32 load_u8(const void* p) {
  const __m128i v = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))};
}
HWY_INLINE I32 lookup(I32 table, I32 index) {
  return {_mm256_shuffle_epi8(table.a, index.a), _mm256_shuffle_epi8(table.b, index.b)};
}

#if HWY_TARGET == HWY_SSE4  // AVX-VNNI (simd-inl.h)
constexpr bool kWideIsSigned = false;
HWY_INLINE I32 dot2(I32 acc, I32 x, I32 y) {
  return {_mm256_dpwssd_avx_epi32(acc.a, x.a, y.a), _mm256_dpwssd_avx_epi32(acc.b, x.b, y.b)};
}
HWY_INLINE I32 dot4(I32 acc, I32 u, I32 s) {
  return {_mm256_dpbusd_avx_epi32(acc.a, u.a, s.a), _mm256_dpbusd_avx_epi32(acc.b, u.b, s.b)};
}
#else
constexpr bool kWideIsSigned = true;
HWY_INLINE I32 dot2(I32 acc, I32 x, I32 y) {
  return add(acc, {_mm256_madd_epi16(x.a, y.a), _mm256_madd_epi16(x.b, y.b)});
}
HWY_INLINE I32 dot4(I32 acc, I32 u, I32 s) {
  const __m256i one = _mm256_set1_epi16(1);
  return dot2(acc, {_mm256_maddubs_epi16(u.a, s.a), _mm256_maddubs_epi16(u.b, s.b)}, {one, one});
}
#endif
HWY_INLINE I32 dot4_signed(I32 acc, I32 a, I32 s) {
  return dot4(acc, {_mm256_abs_epi8(a.a), _mm256_abs_epi8(a.b)},
              {_mm256_sign_epi8(s.a, a.a), _mm256_sign_epi8(s.b, a.b)});
}
HWY_INLINE I32 dot4_wide(I32 acc, I32 u, I32 s) {
  if constexpr (!kWideIsSigned) return dot4(acc, u, s);
  return dot4_signed(acc, bit_xor(u, {_mm256_set1_epi8(-128), _mm256_set1_epi8(-128)}), s);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

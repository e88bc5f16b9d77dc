// simd_avx512-inl.h: the vectors of simd-inl.h in one 512-bit register. Included by that file only.
#include <immintrin.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

constexpr bool kInRegisters = true;

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct Mask {
  __mmask16 v;
};

HWY_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }

HWY_INLINE F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
HWY_INLINE F32 load_first(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
HWY_INLINE void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
HWY_INLINE void store_first(float* p, F32 a, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
HWY_INLINE I32 load_int(const void* p) { return {_mm512_loadu_si512(p)}; }
HWY_INLINE void store_int(void* p, I32 a) { _mm512_storeu_si512(p, a.v); }
HWY_INLINE F32 load_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
HWY_INLINE void store_f16(void* p, F32 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HWY_INLINE F32 load_bf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
HWY_INLINE void store_u16(void* p, I32 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
HWY_INLINE I32 load_i8(const void* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
HWY_INLINE void store_i8(void* p, I32 a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

HWY_INLINE __m256 lower(F32 a) { return _mm512_castps512_ps256(a.v); }
HWY_INLINE __m256 upper(F32 a) { return _mm512_extractf32x8_ps(a.v, 1); }
HWY_INLINE F32 zero() { return {_mm512_setzero_ps()}; }
HWY_INLINE I32 zero_int() { return {_mm512_setzero_si512()}; }
HWY_INLINE F32 set(float a) { return {_mm512_set1_ps(a)}; }
HWY_INLINE I32 set(int32_t a) { return {_mm512_set1_epi32(a)}; }
HWY_INLINE F32 add(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
HWY_INLINE F32 sub(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
HWY_INLINE F32 mul(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
HWY_INLINE F32 div(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
HWY_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
HWY_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
HWY_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
HWY_INLINE F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
HWY_INLINE Mask greater(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
HWY_INLINE F32 select(Mask m, F32 yes, F32 no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }
HWY_INLINE I32 to_int(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }
HWY_INLINE F32 to_float(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
HWY_INLINE __m256i lower(I32 v) { return _mm512_castsi512_si256(v.v); }
HWY_INLINE __m256i upper(I32 v) { return _mm512_extracti64x4_epi64(v.v, 1); }
HWY_INLINE I32 bits(F32 a) { return {_mm512_castps_si512(a.v)}; }
HWY_INLINE F32 as_float(I32 a) { return {_mm512_castsi512_ps(a.v)}; }

HWY_INLINE I32 add(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
HWY_INLINE I32 sub(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
HWY_INLINE I32 mul(I32 a, I32 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
HWY_INLINE I32 bit_and(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
HWY_INLINE I32 bit_or(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
HWY_INLINE I32 bit_xor(I32 a, I32 b) { return {_mm512_xor_si512(a.v, b.v)}; }
HWY_INLINE I32 shl(I32 a, I32 n) { return {_mm512_sllv_epi32(a.v, n.v)}; }
template <int kBits>
HWY_INLINE I32 shl(I32 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
HWY_INLINE I32 shr(I32 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
HWY_INLINE I32 sar(I32 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
template <int kBits>
HWY_INLINE I32 shl16(I32 a) {
  return {_mm512_slli_epi16(a.v, kBits)};
}
template <int kBits>
HWY_INLINE I32 shr16(I32 a) {
  return {_mm512_srli_epi16(a.v, kBits)};
}
template <int kBits>
HWY_INLINE I32 sar16(I32 a) {
  return {_mm512_srai_epi16(a.v, kBits)};
}

HWY_INLINE I32 load_u8(const void* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
HWY_INLINE I32 lookup(I32 table, I32 index) { return {_mm512_shuffle_epi8(table.v, index.v)}; }

// AVX-512 BF16 instructions. No target is compiled with this extension, hence the inline assembly.
// Call these functions only if uses_bf16_dot().
/// VDPBF16PS: in each lane acc += a.odd * b.odd, then acc += a.even * b.even, each rounded once.
HWY_INLINE F32 dot2_bf16(F32 acc, I32 a, I32 b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc.v) : "v"(a.v), "v"(b.v));
  return acc;
}
/// VCVTNEPS2BF16: rounds to nearest even, flushes subnormal numbers to 0.
HWY_INLINE void store_bf16(void* p, F32 a) {
  __m256i halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(a.v));
  _mm256_storeu_si256(static_cast<__m256i*>(p), halves);
}

#if HWY_TARGET == HWY_AVX3_DL
constexpr bool kWideIsSigned = false;
HWY_INLINE I32 dot4(I32 acc, I32 u, I32 s) { return {_mm512_dpbusd_epi32(acc.v, u.v, s.v)}; }
HWY_INLINE I32 dot2(I32 acc, I32 a, I32 b) { return {_mm512_dpwssd_epi32(acc.v, a.v, b.v)}; }
#else
constexpr bool kWideIsSigned = true;
HWY_INLINE I32 dot2(I32 acc, I32 a, I32 b) {
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(a.v, b.v))};
}
HWY_INLINE I32 dot4(I32 acc, I32 u, I32 s) {
  return dot2(acc, {_mm512_maddubs_epi16(u.v, s.v)}, {_mm512_set1_epi16(1)});
}
#endif
HWY_INLINE I32 dot4_signed(I32 acc, I32 a, I32 s) {
  const __mmask64 minus = _mm512_movepi8_mask(a.v);
  return dot4(acc, {_mm512_abs_epi8(a.v)},
              {_mm512_mask_sub_epi8(s.v, minus, _mm512_setzero_si512(), s.v)});
}
HWY_INLINE I32 dot4_wide(I32 acc, I32 u, I32 s) {
  if constexpr (!kWideIsSigned) return dot4(acc, u, s);
  return dot4_signed(acc, bit_xor(u, {_mm512_set1_epi8(-128)}), s);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

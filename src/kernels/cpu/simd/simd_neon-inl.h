// simd_neon-inl.h: the vectors of simd-inl.h in four 128-bit registers of 64-bit ARM. Included by
// that file only.
#include <arm_neon.h>

#include <cmath>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

constexpr bool kInRegisters = true;

struct F32 {
  float32x4_t v[4];
};
struct I32 {
  int32x4_t v[4];
};
struct Mask {
  uint32x4_t v[4];
};

/// Returns the vector whose quarter i is fn(i).
template <typename V, typename Fn>
HWY_INLINE V quarters(Fn fn) {
  return {{fn(0), fn(1), fn(2), fn(3)}};
}

HWY_INLINE F32 load(const float* p) {
  return quarters<F32>([&](int i) { return vld1q_f32(p + 4 * i); });
}
HWY_INLINE void store(float* p, F32 a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
HWY_INLINE F32 load_first(const float* p, int n) {
  alignas(16) float x[16] = {};
  if (n > 0) std::memcpy(x, p, sizeof(float) * static_cast<size_t>(n < 16 ? n : 16));
  return load(x);
}
HWY_INLINE void store_first(float* p, F32 a, int n) {
  alignas(16) float x[16];
  store(x, a);
  if (n > 0) std::memcpy(p, x, sizeof(float) * static_cast<size_t>(n < 16 ? n : 16));
}
HWY_INLINE I32 load_int(const void* p) {
  const auto* bytes = static_cast<const int8_t*>(p);
  return quarters<I32>([&](int i) { return vreinterpretq_s32_s8(vld1q_s8(bytes + 16 * i)); });
}
HWY_INLINE void store_int(void* p, I32 a) {
  auto* bytes = static_cast<int8_t*>(p);
  for (int i = 0; i < 4; ++i) vst1q_s8(bytes + 16 * i, vreinterpretq_s8_s32(a.v[i]));
}
/// Loads 4 words from p + 8 i, which may be unaligned.
HWY_INLINE uint16x4_t load_words(const void* p, int i) {
  return vreinterpret_u16_u8(vld1_u8(static_cast<const uint8_t*>(p) + 8 * i));
}
HWY_INLINE void store_words(void* p, int i, uint16x4_t words) {
  vst1_u8(static_cast<uint8_t*>(p) + 8 * i, vreinterpret_u8_u16(words));
}
HWY_INLINE F32 load_f16(const void* p) {
  return quarters<F32>([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(load_words(p, i))); });
}
HWY_INLINE void store_f16(void* p, F32 a) {
  for (int i = 0; i < 4; ++i) store_words(p, i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
HWY_INLINE F32 load_bf16(const void* p) {
  return quarters<F32>(
      [&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(load_words(p, i), 16)); });
}
HWY_INLINE void store_u16(void* p, I32 a) {
  for (int i = 0; i < 4; ++i) store_words(p, i, vmovn_u32(vreinterpretq_u32_s32(a.v[i])));
}
HWY_INLINE I32 load_i8(const void* p) {
  const int8x16_t bytes = vld1q_s8(static_cast<const int8_t*>(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
           vmovl_high_s16(high)}};
}
HWY_INLINE I32 load_u8(const void* p) {
  const uint8x16_t bytes = vld1q_u8(static_cast<const uint8_t*>(p));
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
  const auto wide = [](uint32x4_t x) { return vreinterpretq_s32_u32(x); };
  return {{wide(vmovl_u16(vget_low_u16(low))), wide(vmovl_high_u16(low)),
           wide(vmovl_u16(vget_low_u16(high))), wide(vmovl_high_u16(high))}};
}
HWY_INLINE void store_i8(void* p, I32 a) {
  const int16x8_t low = vmovn_high_s32(vmovn_s32(a.v[0]), a.v[1]);
  const int16x8_t high = vmovn_high_s32(vmovn_s32(a.v[2]), a.v[3]);
  vst1q_s8(static_cast<int8_t*>(p), vmovn_high_s16(vmovn_s16(low), high));
}

HWY_INLINE F32 set(float x) {
  return quarters<F32>([&](int) { return vdupq_n_f32(x); });
}
HWY_INLINE I32 set(int32_t x) {
  return quarters<I32>([&](int) { return vdupq_n_s32(x); });
}
HWY_INLINE F32 zero() { return set(0.0F); }
HWY_INLINE I32 zero_int() { return set(int32_t{0}); }
HWY_INLINE I32 bits(F32 a) {
  return quarters<I32>([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
}
HWY_INLINE F32 as_float(I32 a) {
  return quarters<F32>([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
}

#define VEERY_NEON_2(type, name, operation)                                  \
  HWY_INLINE type name(type a, type b) {                                     \
    return quarters<type>([&](int i) { return operation(a.v[i], b.v[i]); }); \
  }
VEERY_NEON_2(F32, add, vaddq_f32)
VEERY_NEON_2(F32, sub, vsubq_f32)
VEERY_NEON_2(F32, mul, vmulq_f32)
VEERY_NEON_2(F32, div, vdivq_f32)
VEERY_NEON_2(I32, add, vaddq_s32)
VEERY_NEON_2(I32, sub, vsubq_s32)
VEERY_NEON_2(I32, mul, vmulq_s32)
VEERY_NEON_2(I32, bit_and, vandq_s32)
VEERY_NEON_2(I32, bit_or, vorrq_s32)
VEERY_NEON_2(I32, bit_xor, veorq_s32)
VEERY_NEON_2(I32, shl, vshlq_s32)
#undef VEERY_NEON_2

HWY_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return quarters<F32>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
// vminq and vmaxq would return NaN if either operand is NaN.
HWY_INLINE F32 min(F32 a, F32 b) {
  return quarters<F32>([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
HWY_INLINE F32 max(F32 a, F32 b) {
  return quarters<F32>([&](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
HWY_INLINE F32 sqrt(F32 a) {
  return quarters<F32>([&](int i) { return vsqrtq_f32(a.v[i]); });
}
HWY_INLINE Mask greater(F32 a, F32 b) {
  return quarters<Mask>([&](int i) { return vcgtq_f32(a.v[i], b.v[i]); });
}
HWY_INLINE F32 select(Mask m, F32 yes, F32 no) {
  return quarters<F32>([&](int i) { return vbslq_f32(m.v[i], yes.v[i], no.v[i]); });
}
// vcvtnq saturates and converts NaN to 0; to_int() returns INT32_MIN for both.
HWY_INLINE I32 to_int(F32 a) {
  const float32x4_t limit = vdupq_n_f32(2147483648.0F);
  return quarters<I32>([&](int i) {
    return vbslq_s32(vcltq_f32(a.v[i], limit), vcvtnq_s32_f32(a.v[i]), vdupq_n_s32(INT32_MIN));
  });
}
HWY_INLINE F32 to_float(I32 a) {
  return quarters<F32>([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}

template <int kBits>
HWY_INLINE I32 shl(I32 a) {
  return quarters<I32>([&](int i) { return vshlq_n_s32(a.v[i], kBits); });
}
// Right shifts by 0 have no immediate encoding.
template <int kBits>
HWY_INLINE I32 shr(I32 a) {
  return quarters<I32>([&](int i) {
    const uint32x4_t x = vreinterpretq_u32_s32(a.v[i]);
    if constexpr (kBits == 0)
      return a.v[i];
    else
      return vreinterpretq_s32_u32(vshrq_n_u32(x, kBits));
  });
}
template <int kBits>
HWY_INLINE I32 sar(I32 a) {
  return quarters<I32>([&](int i) {
    if constexpr (kBits == 0)
      return a.v[i];
    else
      return vshrq_n_s32(a.v[i], kBits);
  });
}
template <int kBits>
HWY_INLINE I32 shl16(I32 a) {
  return quarters<I32>([&](int i) {
    return vreinterpretq_s32_s16(vshlq_n_s16(vreinterpretq_s16_s32(a.v[i]), kBits));
  });
}
template <int kBits>
HWY_INLINE I32 shr16(I32 a) {
  if constexpr (kBits == 0)
    return a;
  else
    return quarters<I32>([&](int i) {
      return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(a.v[i]), kBits));
    });
}
template <int kBits>
HWY_INLINE I32 sar16(I32 a) {
  if constexpr (kBits == 0)
    return a;
  else
    return quarters<I32>([&](int i) {
      return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(a.v[i]), kBits));
    });
}

HWY_INLINE I32 lookup(I32 table, I32 index) {
  return quarters<I32>([&](int i) {
    const uint8x16_t low = vandq_u8(vreinterpretq_u8_s32(index.v[i]), vdupq_n_u8(15));
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table.v[i]), low));
  });
}

// Dot products of signed bytes. Without SDOT, pair sums fit int16 because |s| <= 127.
constexpr bool kWideIsSigned = true;
HWY_INLINE I32 dot4_signed(I32 acc, I32 a, I32 s) {
  return quarters<I32>([&](int i) {
    const int8x16_t x = vreinterpretq_s8_s32(a.v[i]), y = vreinterpretq_s8_s32(s.v[i]);
#if HWY_TARGET == HWY_SVE  // NEON with dot products (simd-inl.h)
    return vdotq_s32(acc.v[i], x, y);
#else
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    return vpadalq_s16(acc.v[i], vpaddq_s16(low, vmull_high_s8(x, y)));
#endif
  });
}
HWY_INLINE I32 dot4(I32 acc, I32 u, I32 s) { return dot4_signed(acc, u, s); }
HWY_INLINE I32 dot4_wide(I32 acc, I32 u, I32 s) {
  return dot4_signed(acc, bit_xor(u, set(static_cast<int32_t>(0x80808080))), s);
}
HWY_INLINE I32 dot2(I32 acc, I32 a, I32 b) {
  return quarters<I32>([&](int i) {
    const int16x8_t x = vreinterpretq_s16_s32(a.v[i]), y = vreinterpretq_s16_s32(b.v[i]);
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(acc.v[i], vpaddq_s32(low, vmull_high_s16(x, y)));
  });
}

// Reductions over lanes in the order of simd-inl.h.
HWY_INLINE float sum(F32 a) {
  const float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
HWY_INLINE int32_t sum(I32 a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[2]), vaddq_s32(a.v[1], a.v[3])));
}
HWY_INLINE float max_of(F32 a) {
  const auto larger = [](float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); };
  const float32x4_t four = larger(larger(a.v[0], a.v[2]), larger(a.v[1], a.v[3]));
  const float32x4_t two = larger(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(larger(two, vextq_f32(two, two, 1)), 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

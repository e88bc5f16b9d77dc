// simd_scalar-inl.h: the vectors of simd-inl.h as plain arrays, for Target::kPlain. Included by
// that file only. The operations are not inlined: unrolled kernels would take a minute to compile.
#include <cmath>
#include <cstring>

#include "dtype/dtype.h"
#include "kernels/common/fused.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

struct F32 {
  float v[16];
};
struct I32 {
  int32_t v[16];
};
struct Mask {
  bool v[16];
};

template <typename V, typename Fn>
HWY_INLINE V lanes(Fn fn) {
  V out;
  for (int i = 0; i < 16; ++i) out.v[i] = fn(i);
  return out;
}
/// A copy of the bytes p points to, which may be unaligned.
template <typename T>
HWY_INLINE T at(const void* p, int i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(p) + i * sizeof(T), sizeof(T));
  return value;
}

HWY_NOINLINE inline F32 load(const float* p) {
  return lanes<F32>([&](int i) { return p[i]; });
}
HWY_NOINLINE inline F32 load_first(const float* p, int n) {
  return lanes<F32>([&](int i) { return i < n ? p[i] : 0.0F; });
}
HWY_NOINLINE inline void store_first(float* p, F32 a, int n) {
  for (int i = 0; i < n && i < 16; ++i) p[i] = a.v[i];
}
HWY_NOINLINE inline void store(float* p, F32 a) { store_first(p, a, 16); }
HWY_NOINLINE inline I32 load_int(const void* p) { return at<I32>(p, 0); }
HWY_NOINLINE inline void store_int(void* p, I32 a) { std::memcpy(p, &a, sizeof a); }
HWY_NOINLINE inline F32 load_f16(const void* p) {
  return lanes<F32>([&](int i) { return f16_to_f32(at<uint16_t>(p, i)); });
}
HWY_NOINLINE inline void store_f16(void* p, F32 a) {
  for (int i = 0; i < 16; ++i) {
    const uint16_t half = f32_to_f16(a.v[i]);
    std::memcpy(static_cast<char*>(p) + 2 * i, &half, 2);
  }
}
HWY_NOINLINE inline F32 load_bf16(const void* p) {
  return lanes<F32>([&](int i) { return bf16_to_f32(at<uint16_t>(p, i)); });
}
HWY_NOINLINE inline void store_u16(void* p, I32 a) {
  for (int i = 0; i < 16; ++i) {
    const auto word = static_cast<uint16_t>(a.v[i]);
    std::memcpy(static_cast<char*>(p) + 2 * i, &word, 2);
  }
}
HWY_NOINLINE inline I32 load_i8(const void* p) {
  return lanes<I32>([&](int i) { return at<int8_t>(p, i); });
}
HWY_NOINLINE inline void store_i8(void* p, I32 a) {
  for (int i = 0; i < 16; ++i) static_cast<int8_t*>(p)[i] = static_cast<int8_t>(a.v[i]);
}

HWY_NOINLINE inline F32 set(float x) {
  return lanes<F32>([&](int) { return x; });
}
HWY_NOINLINE inline I32 set(int32_t x) {
  return lanes<I32>([&](int) { return x; });
}
HWY_NOINLINE inline F32 zero() { return set(0.0F); }
HWY_NOINLINE inline I32 zero_int() { return set(int32_t{0}); }
HWY_NOINLINE inline F32 add(F32 a, F32 b) {
  return lanes<F32>([&](int i) { return a.v[i] + b.v[i]; });
}
HWY_NOINLINE inline F32 sub(F32 a, F32 b) {
  return lanes<F32>([&](int i) { return a.v[i] - b.v[i]; });
}
HWY_NOINLINE inline F32 mul(F32 a, F32 b) {
  return lanes<F32>([&](int i) { return a.v[i] * b.v[i]; });
}
HWY_NOINLINE inline F32 div(F32 a, F32 b) {
  return lanes<F32>([&](int i) { return a.v[i] / b.v[i]; });
}
HWY_NOINLINE inline F32 fma(F32 a, F32 b, F32 c) {
  return lanes<F32>([&](int i) { return fused(a.v[i], b.v[i], c.v[i]); });
}
HWY_NOINLINE inline F32 min(F32 a, F32 b) {
  return lanes<F32>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
HWY_NOINLINE inline F32 max(F32 a, F32 b) {
  return lanes<F32>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HWY_NOINLINE inline F32 sqrt(F32 a) {
  return lanes<F32>([&](int i) { return std::sqrt(a.v[i]); });
}
HWY_NOINLINE inline Mask greater(F32 a, F32 b) {
  return lanes<Mask>([&](int i) { return a.v[i] > b.v[i]; });
}
HWY_NOINLINE inline F32 select(Mask m, F32 yes, F32 no) {
  return lanes<F32>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}
HWY_NOINLINE inline I32 to_int(F32 a) {
  return lanes<I32>([&](int i) {
    const float x = std::nearbyint(a.v[i]);
    return x >= -2147483648.0F && x < 2147483648.0F ? static_cast<int32_t>(x) : INT32_MIN;
  });
}
HWY_NOINLINE inline F32 to_float(I32 a) {
  return lanes<F32>([&](int i) { return static_cast<float>(a.v[i]); });
}
HWY_NOINLINE inline I32 bits(F32 a) { return __builtin_bit_cast(I32, a); }
HWY_NOINLINE inline F32 as_float(I32 a) { return __builtin_bit_cast(F32, a); }

/// Lane-wise on the bits, so that integers wrap.
template <typename Fn>
HWY_INLINE I32 unsigned_lanes(I32 a, I32 b, Fn fn) {
  return lanes<I32>([&](int i) {
    return static_cast<int32_t>(fn(static_cast<uint32_t>(a.v[i]), static_cast<uint32_t>(b.v[i])));
  });
}
HWY_NOINLINE inline I32 add(I32 a, I32 b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x + y; });
}
HWY_NOINLINE inline I32 sub(I32 a, I32 b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x - y; });
}
HWY_NOINLINE inline I32 mul(I32 a, I32 b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x * y; });
}
HWY_NOINLINE inline I32 bit_and(I32 a, I32 b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x & y; });
}
HWY_NOINLINE inline I32 bit_or(I32 a, I32 b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x | y; });
}
HWY_NOINLINE inline I32 bit_xor(I32 a, I32 b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x ^ y; });
}
HWY_NOINLINE inline I32 shl(I32 a, I32 n) {
  return unsigned_lanes(a, n, [](uint32_t x, uint32_t y) { return x << y; });
}
template <int kBits>
HWY_NOINLINE inline I32 shl(I32 a) {
  return unsigned_lanes(a, a, [](uint32_t x, uint32_t) { return x << kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 shr(I32 a) {
  return unsigned_lanes(a, a, [](uint32_t x, uint32_t) { return x >> kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 sar(I32 a) {
  return lanes<I32>([&](int i) { return a.v[i] >> kBits; });
}

struct I16 {
  int16_t v[32];
};
template <typename Fn>
HWY_INLINE I32 words(I32 a, Fn fn) {
  I16 w = __builtin_bit_cast(I16, a);
  for (int16_t& x : w.v) x = static_cast<int16_t>(fn(x));
  return __builtin_bit_cast(I32, w);
}
template <int kBits>
HWY_NOINLINE inline I32 shl16(I32 a) {
  return words(a, [](int16_t x) { return static_cast<uint16_t>(x) << kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 shr16(I32 a) {
  return words(a, [](int16_t x) { return static_cast<uint16_t>(x) >> kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 sar16(I32 a) {
  return words(a, [](int16_t x) { return x >> kBits; });
}

HWY_NOINLINE inline I32 load_u8(const void* p) {
  return lanes<I32>([&](int i) { return at<uint8_t>(p, i); });
}
HWY_NOINLINE inline I32 lookup(I32 table, I32 index) {
  I32 out;
  for (int i = 0; i < 64; ++i) {
    const uint8_t byte = at<uint8_t>(&table, i / 16 * 16 + (at<uint8_t>(&index, i) & 15));
    std::memcpy(reinterpret_cast<char*>(&out) + i, &byte, 1);
  }
  return out;
}

constexpr bool kWideIsSigned = false;
HWY_NOINLINE inline I32 dot4_wide(I32 acc, I32 u, I32 s) {
  return lanes<I32>([&](int i) {
    int32_t total = acc.v[i];
    for (int j = 0; j < 4; ++j) total += at<uint8_t>(&u, 4 * i + j) * at<int8_t>(&s, 4 * i + j);
    return total;
  });
}
HWY_NOINLINE inline I32 dot4(I32 acc, I32 u, I32 s) { return dot4_wide(acc, u, s); }
HWY_NOINLINE inline I32 dot4_signed(I32 acc, I32 a, I32 s) {
  return lanes<I32>([&](int i) {
    int32_t total = acc.v[i];
    for (int j = 0; j < 4; ++j) total += at<int8_t>(&a, 4 * i + j) * at<int8_t>(&s, 4 * i + j);
    return total;
  });
}
HWY_NOINLINE inline I32 dot2(I32 acc, I32 a, I32 b) {
  return lanes<I32>([&](int i) {
    return acc.v[i] + at<int16_t>(&a, 2 * i) * at<int16_t>(&b, 2 * i) +
           at<int16_t>(&a, 2 * i + 1) * at<int16_t>(&b, 2 * i + 1);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

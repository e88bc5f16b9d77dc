// simd_scalar-inl.h: the vectors of simd-inl.h as plain arrays, for Target::kPlain. Included by
// that file only. Operations are not inlined and take operands by reference; otherwise unrolled
// kernels would take minutes to compile.
#include <cmath>
#include <cstring>

#include "dtype/dtype.h"
#include "kernels/common/fused.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

constexpr bool kInRegisters = false;

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
/// Loads element i of the array at p, which may be unaligned.
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
HWY_NOINLINE inline void store_first(float* p, const F32& a, int n) {
  for (int i = 0; i < n && i < 16; ++i) p[i] = a.v[i];
}
HWY_NOINLINE inline void store(float* p, const F32& a) { store_first(p, a, 16); }
HWY_NOINLINE inline I32 load_int(const void* p) { return at<I32>(p, 0); }
HWY_NOINLINE inline void store_int(void* p, const I32& a) { std::memcpy(p, &a, sizeof a); }
HWY_NOINLINE inline F32 load_f16(const void* p) {
  return lanes<F32>([&](int i) { return f16_to_f32(at<uint16_t>(p, i)); });
}
HWY_NOINLINE inline void store_f16(void* p, const F32& a) {
  for (int i = 0; i < 16; ++i) {
    const uint16_t half = f32_to_f16(a.v[i]);
    std::memcpy(static_cast<char*>(p) + 2 * i, &half, 2);
  }
}
HWY_NOINLINE inline F32 load_bf16(const void* p) {
  return lanes<F32>([&](int i) { return bf16_to_f32(at<uint16_t>(p, i)); });
}
HWY_NOINLINE inline void store_u16(void* p, const I32& a) {
  for (int i = 0; i < 16; ++i) {
    const auto word = static_cast<uint16_t>(a.v[i]);
    std::memcpy(static_cast<char*>(p) + 2 * i, &word, 2);
  }
}
HWY_NOINLINE inline I32 load_i8(const void* p) {
  return lanes<I32>([&](int i) { return at<int8_t>(p, i); });
}
HWY_NOINLINE inline void store_i8(void* p, const I32& a) {
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
HWY_NOINLINE inline F32 add(const F32& a, const F32& b) {
  return lanes<F32>([&](int i) { return a.v[i] + b.v[i]; });
}
HWY_NOINLINE inline F32 sub(const F32& a, const F32& b) {
  return lanes<F32>([&](int i) { return a.v[i] - b.v[i]; });
}
HWY_NOINLINE inline F32 mul(const F32& a, const F32& b) {
  return lanes<F32>([&](int i) { return a.v[i] * b.v[i]; });
}
HWY_NOINLINE inline F32 div(const F32& a, const F32& b) {
  return lanes<F32>([&](int i) { return a.v[i] / b.v[i]; });
}
HWY_NOINLINE inline F32 fma(const F32& a, const F32& b, const F32& c) {
  return lanes<F32>([&](int i) { return fused(a.v[i], b.v[i], c.v[i]); });
}
HWY_NOINLINE inline F32 min(const F32& a, const F32& b) {
  return lanes<F32>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
HWY_NOINLINE inline F32 max(const F32& a, const F32& b) {
  return lanes<F32>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HWY_NOINLINE inline F32 sqrt(const F32& a) {
  return lanes<F32>([&](int i) { return std::sqrt(a.v[i]); });
}
HWY_NOINLINE inline Mask greater(const F32& a, const F32& b) {
  return lanes<Mask>([&](int i) { return a.v[i] > b.v[i]; });
}
HWY_NOINLINE inline F32 select(const Mask& m, const F32& yes, const F32& no) {
  return lanes<F32>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}
HWY_NOINLINE inline I32 to_int(const F32& a) {
  return lanes<I32>([&](int i) {
    const float x = std::nearbyint(a.v[i]);
    return x >= -2147483648.0F && x < 2147483648.0F ? static_cast<int32_t>(x) : INT32_MIN;
  });
}
HWY_NOINLINE inline F32 to_float(const I32& a) {
  return lanes<F32>([&](int i) { return static_cast<float>(a.v[i]); });
}
HWY_NOINLINE inline I32 bits(const F32& a) { return __builtin_bit_cast(I32, a); }
HWY_NOINLINE inline F32 as_float(const I32& a) { return __builtin_bit_cast(F32, a); }

/// Applies fn lane by lane to unsigned integers, so that overflow wraps.
template <typename Fn>
HWY_INLINE I32 unsigned_lanes(const I32& a, const I32& b, Fn fn) {
  return lanes<I32>([&](int i) {
    return static_cast<int32_t>(fn(static_cast<uint32_t>(a.v[i]), static_cast<uint32_t>(b.v[i])));
  });
}
HWY_NOINLINE inline I32 add(const I32& a, const I32& b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x + y; });
}
HWY_NOINLINE inline I32 sub(const I32& a, const I32& b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x - y; });
}
HWY_NOINLINE inline I32 mul(const I32& a, const I32& b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x * y; });
}
HWY_NOINLINE inline I32 bit_and(const I32& a, const I32& b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x & y; });
}
HWY_NOINLINE inline I32 bit_or(const I32& a, const I32& b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x | y; });
}
HWY_NOINLINE inline I32 bit_xor(const I32& a, const I32& b) {
  return unsigned_lanes(a, b, [](uint32_t x, uint32_t y) { return x ^ y; });
}
HWY_NOINLINE inline I32 shl(const I32& a, const I32& n) {
  return unsigned_lanes(a, n, [](uint32_t x, uint32_t y) { return x << y; });
}
template <int kBits>
HWY_NOINLINE inline I32 shl(const I32& a) {
  return unsigned_lanes(a, a, [](uint32_t x, uint32_t) { return x << kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 shr(const I32& a) {
  return unsigned_lanes(a, a, [](uint32_t x, uint32_t) { return x >> kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 sar(const I32& a) {
  return lanes<I32>([&](int i) { return a.v[i] >> kBits; });
}

struct I16 {
  int16_t v[32];
};
template <typename Fn>
HWY_INLINE I32 words(const I32& a, Fn fn) {
  I16 w = __builtin_bit_cast(I16, a);
  for (int16_t& x : w.v) x = static_cast<int16_t>(fn(x));
  return __builtin_bit_cast(I32, w);
}
template <int kBits>
HWY_NOINLINE inline I32 shl16(const I32& a) {
  return words(a, [](int16_t x) { return static_cast<uint16_t>(x) << kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 shr16(const I32& a) {
  return words(a, [](int16_t x) { return static_cast<uint16_t>(x) >> kBits; });
}
template <int kBits>
HWY_NOINLINE inline I32 sar16(const I32& a) {
  return words(a, [](int16_t x) { return x >> kBits; });
}

HWY_NOINLINE inline I32 load_u8(const void* p) {
  return lanes<I32>([&](int i) { return at<uint8_t>(p, i); });
}
HWY_NOINLINE inline I32 lookup(const I32& table, const I32& index) {
  I32 out;
  for (int i = 0; i < 64; ++i) {
    const uint8_t byte = at<uint8_t>(&table, i / 16 * 16 + (at<uint8_t>(&index, i) & 15));
    std::memcpy(reinterpret_cast<char*>(&out) + i, &byte, 1);
  }
  return out;
}

constexpr bool kWideIsSigned = false;
HWY_NOINLINE inline I32 dot4_wide(const I32& acc, const I32& u, const I32& s) {
  return lanes<I32>([&](int i) {
    int32_t total = acc.v[i];
    for (int j = 0; j < 4; ++j) total += at<uint8_t>(&u, 4 * i + j) * at<int8_t>(&s, 4 * i + j);
    return total;
  });
}
HWY_NOINLINE inline I32 dot4(const I32& acc, const I32& u, const I32& s) {
  return dot4_wide(acc, u, s);
}
HWY_NOINLINE inline I32 dot4_signed(const I32& acc, const I32& a, const I32& s) {
  return lanes<I32>([&](int i) {
    int32_t total = acc.v[i];
    for (int j = 0; j < 4; ++j) total += at<int8_t>(&a, 4 * i + j) * at<int8_t>(&s, 4 * i + j);
    return total;
  });
}
HWY_NOINLINE inline I32 dot2(const I32& acc, const I32& a, const I32& b) {
  return lanes<I32>([&](int i) {
    return acc.v[i] + at<int16_t>(&a, 2 * i) * at<int16_t>(&b, 2 * i) +
           at<int16_t>(&a, 2 * i + 1) * at<int16_t>(&b, 2 * i + 1);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

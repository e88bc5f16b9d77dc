// lanes-inl.h: 16 floats side by side; one lane holds one block (or sub-block, or group) of many.
#if defined(VEERY_DTYPE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_LANES_INL_H
#undef VEERY_DTYPE_LANES_INL_H
#else
#define VEERY_DTYPE_LANES_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "dtype/half.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

// Vectors of the compiler, which it lowers to what the target has. Every operation is one of its
// own (no contraction), so all targets give the same bits.
constexpr int kLanes = 16;
using V [[gnu::vector_size(64)]] = float;
using I [[gnu::vector_size(64)]] = int32_t;

HWY_INLINE V all(float value) { return V{} + value; }
HWY_INLINE V load(const float* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
HWY_INLINE void store(V v, float* to) { std::memcpy(to, &v, sizeof v); }
HWY_INLINE V choose(I where, V yes, V no) { return where ? yes : no; }
HWY_INLINE V least(V a, V b) { return a < b ? a : b; }
HWY_INLINE V most(V a, V b) { return a > b ? a : b; }
HWY_INLINE V magnitude(V v) { return most(v, -v); }
HWY_INLINE bool any(I where) {
  int32_t lanes[kLanes];
  std::memcpy(lanes, &where, sizeof lanes);
  int32_t found = 0;
  for (const int32_t lane : lanes) found |= lane;
  return found != 0;
}
/// 1 / v, and 0 where v is too small to divide by.
HWY_INLINE V reciprocal(V v) {
  const I small = magnitude(v) < all(1e-30F);
  return choose(small, V{}, 1.0F / choose(small, all(1), v));
}
/// The nearest integer of |v| < 2^22, ties to even: the sum's low bits are the integer.
HWY_INLINE V nearest(V v) { return (v + 12582912.0F) - 12582912.0F; }
/// Through f16 and back.
inline V rounded_to_half(V v) {
  float lanes[kLanes];
  store(v, lanes);
  for (float& lane : lanes) lane = f16_to_f32(f32_to_f16(lane));
  return load(lanes);
}
/// In each lane the sum of the `group` lanes that it is among.
inline V sum_over(V v, int group) {
  float lanes[kLanes];
  store(v, lanes);
  for (int begin = 0; begin < kLanes; begin += group) {
    float sum = 0;
    for (int k = 0; k < group; ++k) sum += lanes[begin + k];
    for (int k = 0; k < group; ++k) lanes[begin + k] = sum;
  }
  return load(lanes);
}

/// Up to 16 blocks of kSize elements: element i of all of them in x[i], what its error counts in
/// w[i]. Lanes that are not used are zero.
template <int kSize>
struct Blocks {
  V x[kSize];
  V w[kSize];

  /// `weights` null: 1.
  void read(const float* values, const float* weights, int count) {
    transpose(values, count, x);
    if (weights != nullptr)
      transpose(weights, count, w);
    else
      for (V& v : w) v = all(1);
  }
  V largest() const {
    V found = {};
    for (const V& v : x) found = most(found, magnitude(v));
    return found;
  }

 private:
  static void transpose(const float* from, int count, V* to) {
    alignas(64) float lanes[kSize][kLanes] = {};
    for (int b = 0; b < count; ++b)
      for (int i = 0; i < kSize; ++i) lanes[i][b] = from[b * kSize + i];
    std::memcpy(to, lanes, sizeof lanes);
  }
};

/// Codes by element and lane to codes by lane and element.
template <int kSize>
void write_codes(const V* codes, int8_t* out) {
  for (int i = 0; i < kSize; ++i) {
    const I whole = __builtin_convertvector(codes[i], I);
    int32_t lanes[kLanes];
    std::memcpy(lanes, &whole, sizeof lanes);
    for (int b = 0; b < kLanes; ++b) out[b * kSize + i] = static_cast<int8_t>(lanes[b]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif

// lanes-inl.h: vectors of 16 floats, in which a lane stands for one block, sub-block or group.
#if defined(VEERY_DTYPE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_LANES_INL_H
#undef VEERY_DTYPE_LANES_INL_H
#else
#define VEERY_DTYPE_LANES_INL_H
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dtype/half.h"
// GCC warns about the ABI of vectors wider than the target's; they are only passed between
// functions of one target.
#pragma GCC diagnostic ignored "-Wpsabi"
#include "dtype/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

// Uses the compiler's vector types in the width of the target, several of them for 16 lanes if
// necessary (wider vector types are compiled lane by lane). Each operation is rounded separately,
// without contraction, so that all targets give the same bits.
constexpr int kLanes = 16;
constexpr int32_t kSign = INT32_MIN;
#if HWY_TARGET == HWY_AVX3
constexpr int kVectorBytes = 64;
#elif HWY_TARGET == HWY_AVX2
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
using FloatVector [[gnu::vector_size(kVectorBytes)]] = float;
using IntVector [[gnu::vector_size(kVectorBytes)]] = int32_t;

/// A pair of T, which has twice the lanes of T: T is a vector or a Two.
template <typename T>
struct Two {
  T low, high;
};
template <typename T>
Two(T, T) -> Two<T>;

// Operators of vectors with vectors and with scalars.
#define VEERY_LANES_OPERATOR(OP)                                                          \
  template <typename T>                                                                   \
  HWY_INLINE auto operator OP(Two<T> a, Two<T> b) {                                       \
    return Two{a.low OP b.low, a.high OP b.high};                                         \
  }                                                                                       \
  template <typename T, typename Scalar>                                                  \
  requires std::is_arithmetic_v<Scalar> HWY_INLINE auto operator OP(Two<T> a, Scalar b) { \
    return Two{a.low OP b, a.high OP b};                                                  \
  }                                                                                       \
  template <typename T, typename Scalar>                                                  \
  requires std::is_arithmetic_v<Scalar> HWY_INLINE auto operator OP(Scalar a, Two<T> b) { \
    return Two{a OP b.low, a OP b.high};                                                  \
  }
VEERY_LANES_OPERATOR(+)
VEERY_LANES_OPERATOR(-)
VEERY_LANES_OPERATOR(*)
VEERY_LANES_OPERATOR(/)
VEERY_LANES_OPERATOR(<)
VEERY_LANES_OPERATOR(>)
VEERY_LANES_OPERATOR(<=)
VEERY_LANES_OPERATOR(>=)
VEERY_LANES_OPERATOR(&)
VEERY_LANES_OPERATOR(|)
VEERY_LANES_OPERATOR(<<)
VEERY_LANES_OPERATOR(>>)
#undef VEERY_LANES_OPERATOR
template <typename T>
HWY_INLINE Two<T> operator-(Two<T> v) {
  return {-v.low, -v.high};
}
template <typename T, typename Other>
HWY_INLINE Two<T>& operator+=(Two<T>& a, Other b) {
  return a = a + b;
}

template <typename T, int kBytes>
struct WideOf {
  using Type = Two<typename WideOf<T, kBytes / 2>::Type>;
};
template <>
struct WideOf<FloatVector, kVectorBytes> {
  using Type = FloatVector;
};
template <>
struct WideOf<IntVector, kVectorBytes> {
  using Type = IntVector;
};
using V = WideOf<FloatVector, 4 * kLanes>::Type;
using I = WideOf<IntVector, 4 * kLanes>::Type;
static_assert(sizeof(V) == 4 * kLanes && sizeof(I) == 4 * kLanes);

HWY_INLINE FloatVector select(IntVector where, FloatVector yes, FloatVector no) {
  return where ? yes : no;
}
HWY_INLINE IntVector select(IntVector where, IntVector yes, IntVector no) {
  return where ? yes : no;
}
template <typename T, typename U>
HWY_INLINE Two<U> select(Two<T> where, Two<U> yes, Two<U> no) {
  return {select(where.low, yes.low, no.low), select(where.high, yes.high, no.high)};
}
/// Converts floats with integral values.
HWY_INLINE IntVector to_integers(FloatVector v) { return __builtin_convertvector(v, IntVector); }
template <typename T>
HWY_INLINE auto to_integers(Two<T> v) {
  return Two{to_integers(v.low), to_integers(v.high)};
}
HWY_INLINE FloatVector to_floats(IntVector v) { return __builtin_convertvector(v, FloatVector); }
template <typename T>
HWY_INLINE auto to_floats(Two<T> v) {
  return Two{to_floats(v.low), to_floats(v.high)};
}
template <typename To, typename From>
HWY_INLINE To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

HWY_INLINE V broadcast(float value) { return V{} + value; }
HWY_INLINE V load(const float* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
HWY_INLINE void store(V v, float* to) { std::memcpy(to, &v, sizeof v); }
HWY_INLINE V lane_min(V a, V b) { return select(a < b, a, b); }
HWY_INLINE V lane_max(V a, V b) { return select(a > b, a, b); }
HWY_INLINE V magnitude(V v) { return same_bits<V>(same_bits<I>(v) & 0x7FFFFFFF); }
HWY_INLINE bool any(I where) {
  uint64_t lanes[kLanes / 2];
  std::memcpy(lanes, &where, sizeof lanes);
  uint64_t found = 0;
  for (const uint64_t pair : lanes) found |= pair;
  return found != 0;
}
/// Returns 1 / v, or 0 where |v| is too small to divide by.
HWY_INLINE V reciprocal(V v) {
  const I small = magnitude(v) < 1e-30F;
  return select(small, V{}, 1.0F / select(small, broadcast(1), v));
}
/// Rounds |v| < 2^22 to the nearest integer, ties to even: the low bits of the sum are the integer.
HWY_INLINE V nearest(V v) { return (v + 12582912.0F) - 12582912.0F; }
/// Rounds to f16 precision as f32_to_f16 does; finite values only.
inline V rounded_to_half(V v) {
  const I bits = same_bits<I>(v);
  const V size = magnitude(v);
  // Normal numbers keep ten bits of the fraction, rounded to nearest even. Below 2^-14, values
  // become multiples of 2^-24, the last bit of floats from 0.5 to 1.
  const I kept = (bits + (0xFFF + (bits >> 13 & 1))) & ~0x1FFF;
  const V small = same_bits<V>(same_bits<I>((size + 0.5F) - 0.5F) | (bits & kSign));
  const V large = same_bits<V>(same_bits<I>(broadcast(HUGE_VALF)) | (bits & kSign));
  return select(size < 6.103515625e-5F, small, select(size >= 65520.0F, large, same_bits<V>(kept)));
}
/// Correctly rounded.
HWY_INLINE FloatVector square_root(FloatVector v) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_sqrt_ps(v);
#elif HWY_TARGET == HWY_AVX2
  return _mm256_sqrt_ps(v);
#else
  for (int k = 0; k < kVectorBytes / 4; ++k) v[k] = std::sqrt(v[k]);
  return v;
#endif
}
template <typename T>
HWY_INLINE Two<T> square_root(Two<T> v) {
  return {square_root(v.low), square_root(v.high)};
}
/// Returns in each lane the sum over its group of `group` consecutive lanes.
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

/// Transposes a 4 x 4 matrix.
using Quad [[gnu::vector_size(16)]] = float;
HWY_INLINE void transpose_quads(Quad* q) {
  const Quad a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
  const Quad b = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
  const Quad c = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
  const Quad d = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
  q[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  q[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  q[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  q[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/// Up to 16 blocks of kSize elements in transposed order: x[i] holds element i of all blocks, w[i]
/// its error weight. Unused lanes are zero.
template <int kSize>
struct Blocks {
  V x[kSize];
  V w[kSize];

  /// `weights` may be nullptr: all weights are 1.
  void read(const float* values, const float* weights, int count) {
    transpose(values, count, x);
    if (weights != nullptr)
      transpose(weights, count, w);
    else
      for (V& v : w) v = broadcast(1);
  }
  V squares() const {
    V sum = {};
    for (const V& v : x) sum += v * v;
    return sum;
  }
  /// Sets the default error weights, sqrt(2 + x^2 / mean x^2). In measurements, models quantised
  /// this way predicted closer to the originals than with equal weights or weights that grow
  /// faster.
  void weigh_by_size(V mean_square) {
    const V per_mean = reciprocal(mean_square);
    for (int i = 0; i < kSize; ++i) w[i] = square_root(2.0F + x[i] * x[i] * per_mean);
  }
  V largest() const {
    V found = {};
    for (const V& v : x) found = lane_max(found, magnitude(v));
    return found;
  }

  /// Stores element i of `count` blocks in to[i].
  static void transpose(const float* from, int count, V* to) {
    alignas(64) float lanes[kSize][kLanes] = {};
    const int fours = count / 4 * 4;
    for (int b = 0; b < fours; b += 4)
      for (int i = 0; i < kSize; i += 4) {
        Quad q[4];
        for (int k = 0; k < 4; ++k) std::memcpy(&q[k], from + (b + k) * kSize + i, sizeof q[k]);
        transpose_quads(q);
        for (int k = 0; k < 4; ++k) std::memcpy(&lanes[i + k][b], &q[k], sizeof q[k]);
      }
    for (int b = fours; b < count; ++b)
      for (int i = 0; i < kSize; ++i) lanes[i][b] = from[b * kSize + i];
    std::memcpy(to, lanes, sizeof lanes);
  }
};

/// Transposes codes: from element-major lanes to one contiguous block per lane.
template <int kSize>
void write_codes(const V* codes, int8_t* out) {
  // Pack four codes of a lane into one word, then transpose words.
  alignas(64) float words[kSize / 4][kLanes];
  for (int i = 0; i < kSize / 4; ++i) {
    const I first = to_integers(codes[4 * i]) & 255;
    const I second = (to_integers(codes[4 * i + 1]) & 255) << 8;
    const I third = (to_integers(codes[4 * i + 2]) & 255) << 16;
    const I fourth = to_integers(codes[4 * i + 3]) << 24;
    const I word = first | second | third | fourth;
    std::memcpy(words[i], &word, sizeof word);
  }
  for (int i = 0; i < kSize / 4; i += 4)
    for (int b = 0; b < kLanes; b += 4) {
      Quad q[4];
      for (int k = 0; k < 4; ++k) std::memcpy(&q[k], &words[i + k][b], sizeof q[k]);
      transpose_quads(q);
      for (int k = 0; k < 4; ++k) std::memcpy(out + (b + k) * kSize + 4 * i, &q[k], sizeof q[k]);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif

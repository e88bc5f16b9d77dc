// lanes-inl.h: vectors of 16 lanes of f32 or f64 under the same names, and rows of tensors as
// arrays of them.
#if defined(VEERY_KERNELS_CPU_TENSOR_FAST_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_TENSOR_FAST_LANES_INL_H
#undef VEERY_KERNELS_CPU_TENSOR_FAST_LANES_INL_H
#else
#define VEERY_KERNELS_CPU_TENSOR_FAST_LANES_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "dtype/half.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/tensor/element_program.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

constexpr int64_t kLanes = 16;

/// The f64 counterpart of F32. Loops over its lanes are left to the compiler.
struct F64 {
  double v[kLanes];
};
template <typename Fn>
HWY_INLINE F64 each_lane(const Fn& fn) {
  F64 out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = fn(i);
  return out;
}
HWY_INLINE F64 load(const double* p) {
  return each_lane([&](int i) { return p[i]; });
}
HWY_INLINE void store(double* p, const F64& a) { std::copy_n(a.v, kLanes, p); }
HWY_INLINE F64 set(double x) {
  return each_lane([&](int) { return x; });
}
HWY_INLINE F64 add(const F64& a, const F64& b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
HWY_INLINE F64 sub(const F64& a, const F64& b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
HWY_INLINE F64 mul(const F64& a, const F64& b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
HWY_INLINE F64 div(const F64& a, const F64& b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
HWY_INLINE F64 fma(const F64& a, const F64& b, const F64& c) {
  return each_lane([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
HWY_INLINE F64 max(const F64& a, const F64& b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HWY_INLINE F64 exp(const F64& a) {
  return each_lane([&](int i) { return std::exp(a.v[i]); });
}
HWY_INLINE double sum(F64 a) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) a.v[i] += a.v[i + step];
  return a.v[0];
}
HWY_INLINE double max_of(F64 a) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) a.v[i] = a.v[i] > a.v[i + step] ? a.v[i] : a.v[i + step];
  return a.v[0];
}

/// The vector of 16 elements of T: float or double.
template <typename T>
using Vector = std::conditional_t<std::is_same_v<T, float>, F32, F64>;

/// e^x with the bits that it has in a lane.
template <typename T>
HWY_INLINE T exp_of(T x) {
  alignas(64) T y[kLanes];
  store(y, exp(set(x)));
  return y[0];
}

HWY_INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Parts of a worker's memory.
template <typename T>
class Scratch {
 public:
  explicit Scratch(void* memory) : next_(static_cast<T*>(memory)) {}
  HWY_INLINE T* take(int64_t n) {
    T* part = next_;
    next_ += n;
    return part;
  }
  HWY_INLINE T* zeros(int64_t n) {
    T* part = take(n);
    std::fill_n(part, n, T{0});
    return part;
  }

 private:
  T* next_;
};

// Element `at` of an array of a float type.
template <typename T>
HWY_INLINE T element(const std::byte* data, ElementType type, int64_t at) {
  switch (type) {
    case ElementType::kF16:
      return static_cast<T>(f16_to_f32(reinterpret_cast<const uint16_t*>(data)[at]));
    case ElementType::kBF16:
      return static_cast<T>(bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[at]));
    case ElementType::kF64: return static_cast<T>(reinterpret_cast<const double*>(data)[at]);
    default: return static_cast<T>(reinterpret_cast<const float*>(data)[at]);
  }
}

/// Reads n elements of a float type, `stride` apart, as T, and adds zeros up to `padded`.
template <typename T>
void load_row(const std::byte* from, ElementType type, int64_t stride, int64_t n, T* to,
              int64_t padded) {
  int64_t i = 0;
  if (stride == 1) {
    if constexpr (std::is_same_v<T, float>) {
      const auto* halves = reinterpret_cast<const uint16_t*>(from);
      if (type == ElementType::kF16)
        for (; i + kLanes <= n; i += kLanes) store(to + i, load_f16(halves + i));
      if (type == ElementType::kBF16)
        for (; i + kLanes <= n; i += kLanes) store(to + i, load_bf16(halves + i));
    }
    constexpr ElementType kOwn = std::is_same_v<T, float> ? ElementType::kF32 : ElementType::kF64;
    if (type == kOwn) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
      i = n;
    }
  }
  for (; i < n; ++i) to[i] = element<T>(from, type, i * stride);
  std::fill(to + n, to + padded, T{0});
}

/// Writes n contiguous elements, each rounded to `type`.
template <typename T>
void store_row(const T* from, int64_t n, std::byte* to, ElementType type) {
  if (type == ElementType::kF16) {
    auto* y = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = f32_to_f16(static_cast<float>(from[i]));
  } else if (type == ElementType::kBF16) {
    auto* y = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = f32_to_bf16(static_cast<float>(from[i]));
  } else if (n > 0) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  }
}

/// Sums term(i), i being a multiple of 16 below `padded`, in four chains of vectors: term(i, c)
/// returns c plus the terms of elements i to i + 15. Then the chains and the lanes are added as
/// trees, as in the norms of models (row-inl.h).
template <typename T, typename Term>
HWY_INLINE T sum_of(int64_t padded, const Term& term) {
  Vector<T> part[4] = {set(T{0}), set(T{0}), set(T{0}), set(T{0})};
  int64_t i = 0;
  for (; i + 4 * kLanes <= padded; i += 4 * kLanes)
    unroll<4>([&](auto c) { part[c()] = term(i + c() * kLanes, part[c()]); });
  unroll<3>([&](auto c) {
    if (i + c() * kLanes < padded) part[c()] = term(i + c() * kLanes, part[c()]);
  });
  return sum(add(add(part[0], part[1]), add(part[2], part[3])));
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_TENSOR_FAST_LANES_INL_H

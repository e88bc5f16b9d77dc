// numbers-inl.h: ops on numbers of one type as functors, shared by the loops of element programs.
#if defined(VEERY_KERNELS_CPU_TENSOR_NUMBERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_TENSOR_NUMBERS_INL_H
#undef VEERY_KERNELS_CPU_TENSOR_NUMBERS_INL_H
#else
#define VEERY_KERNELS_CPU_TENSOR_NUMBERS_INL_H
#endif

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/tensor/element_loops.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;
/// The unsigned type in which T wraps around without undefined behaviour.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

template <typename T>
HWY_INLINE bool is_nan(T x) {
  return x != x;
}

struct Add {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (kIsFloat<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Subtract {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (kIsFloat<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct Multiply {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (kIsFloat<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct Minimum {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    return a < b || is_nan(a) ? a : b;
  }
};
struct Maximum {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    return a > b || is_nan(a) ? a : b;
  }
};
struct Negate {
  template <typename T>
  static HWY_INLINE T of(T a) {
    if constexpr (kIsFloat<T>)
      return -a;
    else
      return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  }
};
struct Absolute {
  template <typename T>
  static HWY_INLINE T of(T a) {
    if constexpr (kIsFloat<T>)
      return std::fabs(a);
    else
      return a < T{0} ? Negate::of(a) : a;
  }
};
struct Sign {
  template <typename T>
  static HWY_INLINE T of(T a) {
    return is_nan(a) ? a : static_cast<T>((a > T{0} ? 1 : 0) - (a < T{0} ? 1 : 0));
  }
};
struct Remainder {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (kIsFloat<T>) {
      const T rest = std::fmod(a, b);
      if (rest == T{0}) return std::copysign(T{0}, b);
      return (rest < T{0}) != (b < T{0}) ? rest + b : rest;
    } else {
      if (b == T{0}) return T{0};
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
      const T rest = static_cast<T>(a % b);
      return rest != T{0} && (rest < T{0}) != (b < T{0}) ? static_cast<T>(rest + b) : rest;
    }
  }
};
struct FloorDivide {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (kIsFloat<T>) {
      if (b == T{0}) return a / b;
      // The quotient without the remainder is an integer up to rounding, from either side.
      const T rest = std::fmod(a, b);
      const T quotient =
          (a - rest) / b - (rest != T{0} && (rest < T{0}) != (b < T{0}) ? T{1} : T{0});
      if (quotient == T{0}) return std::copysign(T{0}, a / b);
      const T down = std::floor(quotient);
      return quotient - down > T{0.5} ? down + T{1} : down;
    } else {
      if (b == T{0}) return T{0};
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Negate::of(a);
      const T quotient = static_cast<T>(a / b);
      return a % b != T{0} && (a < T{0}) != (b < T{0}) ? static_cast<T>(quotient - 1) : quotient;
    }
  }
};
struct Power {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (kIsFloat<T>) {
      return std::pow(a, b);
    } else {
      if (b < T{0})
        return a == T{1} ? T{1} : a == static_cast<T>(-1) ? (b % 2 != 0 ? a : T{1}) : T{0};
      T result{1};
      for (auto rest = static_cast<std::make_unsigned_t<T>>(b); rest != 0;
           rest = static_cast<decltype(rest)>(rest >> 1)) {
        if ((rest & 1) != 0) result = Multiply::of(result, a);
        a = Multiply::of(a, a);
      }
      return result;
    }
  }
};
struct And {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  static HWY_INLINE T of(T a) {
    return static_cast<T>(~a);
  }
};
template <typename T>
constexpr auto kWidth = static_cast<T>(8 * sizeof(T));
struct ShiftLeft {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if (b < T{0} || b >= kWidth<T>) return T{0};
    return static_cast<T>(static_cast<Wrapping<T>>(a) << b);
  }
};
struct ShiftRight {
  template <typename T>
  static HWY_INLINE T of(T a, T b) {
    if (b < T{0} || b >= kWidth<T>) return a < T{0} ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};

struct Equal {
  template <typename T>
  static HWY_INLINE uint8_t of(T a, T b) {
    return a == b ? 1 : 0;
  }
};
struct NotEqual {
  template <typename T>
  static HWY_INLINE uint8_t of(T a, T b) {
    return a != b ? 1 : 0;
  }
};
struct Less {
  template <typename T>
  static HWY_INLINE uint8_t of(T a, T b) {
    return a < b ? 1 : 0;
  }
};
struct LessEqual {
  template <typename T>
  static HWY_INLINE uint8_t of(T a, T b) {
    return a <= b ? 1 : 0;
  }
};

template <typename Fn, typename T>
void unary_loop(const void* a, const void*, const void*, void* out, int64_t n) {
  const auto* x = static_cast<const T*>(a);
  auto* y = static_cast<decltype(Fn::of(T{}))*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = Fn::of(x[i]);
}
template <typename Fn, typename T>
void binary_loop(const void* a, const void* b, const void*, void* out, int64_t n) {
  const auto* x = static_cast<const T*>(a);
  const auto* z = static_cast<const T*>(b);
  auto* y = static_cast<decltype(Fn::of(T{}, T{}))*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = Fn::of(x[i], z[i]);
}
template <typename T>
void select_loop(const void* a, const void* b, const void* c, void* out, int64_t n) {
  const auto* condition = static_cast<const uint8_t*>(a);
  const auto* yes = static_cast<const T*>(b);
  const auto* no = static_cast<const T*>(c);
  auto* y = static_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = condition[i] != 0 ? yes[i] : no[i];
}
template <typename T>
void copy_loop(const void* a, const void*, const void*, void* out, int64_t n) {
  const auto* x = static_cast<const T*>(a);
  auto* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
}

using enum ElementOp;

/// The loops of ops on elements of any type; nullptr for other ops.
template <typename T>
ElementLoop any_loop(ElementOp op) {
  switch (op) {
    case kCopy: return copy_loop<T>;
    case kSelect: return select_loop<T>;
    case kEqual: return binary_loop<Equal, T>;
    case kNotEqual: return binary_loop<NotEqual, T>;
    case kLess: return binary_loop<Less, T>;
    case kLessEqual: return binary_loop<LessEqual, T>;
    default: return nullptr;
  }
}
/// The loops of ops on numbers of any type; nullptr for other ops.
template <typename T>
ElementLoop number_loop(ElementOp op) {
  switch (op) {
    case kAdd: return binary_loop<Add, T>;
    case kSubtract: return binary_loop<Subtract, T>;
    case kMultiply: return binary_loop<Multiply, T>;
    case kMinimum: return binary_loop<Minimum, T>;
    case kMaximum: return binary_loop<Maximum, T>;
    case kFloorDivide: return binary_loop<FloorDivide, T>;
    case kRemainder: return binary_loop<Remainder, T>;
    case kPower: return binary_loop<Power, T>;
    case kNegate: return unary_loop<Negate, T>;
    case kAbsolute: return unary_loop<Absolute, T>;
    case kSign: return unary_loop<Sign, T>;
    default: return any_loop<T>(op);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_TENSOR_NUMBERS_INL_H

// element_functions-inl.h: the functions of element programs on one element, with the operations of
// kernels/cpu/tensor and therefore the same bits, except for functions of the C++ library.
#pragma once
#include <cmath>

#include "kernels/common/erfinv.h"
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/params/tensor_params.h"
#include "kernels/tensor/element_op.h"
#include "kernels/tensor/element_type.h"

namespace veery::gpu {

using enum ElementOp;

template <typename T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;
template <typename T>
inline constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);

template <typename T>
VEERY_GPU bool is_negative(T x) {
  if constexpr (kIsSigned<T>)
    return x < T{0};
  else
    return false;
}

/// The unsigned type in which T wraps around.
template <typename T>
struct WrappingOf {
  using Type = uint32_t;
};
template <>
struct WrappingOf<int64_t> {
  using Type = uint64_t;
};
template <typename T>
using Wrapping = typename WrappingOf<T>::Type;

/// Registers of a program are words; integers narrower than the word are extended.
template <typename Word, typename T>
VEERY_GPU Word to_word(T x) {
  if constexpr (sizeof(T) == 4 && kIsFloat<T>)
    return static_cast<uint32_t>(float_to_bits(x));
  else if constexpr (kIsFloat<T>)
    return static_cast<Word>(float_to_bits(x));
  else
    return static_cast<Word>(x);
}
template <typename T, typename Word>
VEERY_GPU T from_word(Word x) {
  if constexpr (sizeof(T) == 4 && kIsFloat<T>)
    return bits_to_float(static_cast<int32_t>(x));
  else if constexpr (kIsFloat<T>)
    return bits_to_double(static_cast<int64_t>(x));
  else
    return static_cast<T>(x);
}

template <typename T>
VEERY_GPU T add_numbers(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <typename T>
VEERY_GPU T subtract_numbers(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <typename T>
VEERY_GPU T multiply_numbers(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <typename T>
VEERY_GPU T least_number(T a, T b) {
  return a < b || a != a ? a : b;
}
template <typename T>
VEERY_GPU T greatest_number(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
VEERY_GPU T negative_number(T a) {
  if constexpr (kIsFloat<T>)
    return -a;
  else
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
}
template <typename T>
VEERY_GPU T absolute_number(T a) {
  if constexpr (kIsFloat<T>)
    return std::fabs(a);
  else
    return is_negative(a) ? negative_number(a) : a;
}
template <typename T>
VEERY_GPU T sign_of_number(T a) {
  return a != a ? a : static_cast<T>((a > T{0} ? 1 : 0) - (is_negative(a) ? 1 : 0));
}
template <typename T>
VEERY_GPU T shifted_left(T a, T b) {
  if (is_negative(b) || b >= static_cast<T>(8 * sizeof(T))) return T{0};
  return static_cast<T>(static_cast<Wrapping<T>>(a) << b);
}
template <typename T>
VEERY_GPU T shifted_right(T a, T b) {
  if (is_negative(b) || b >= static_cast<T>(8 * sizeof(T)))
    return is_negative(a) ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> b);
}
template <typename T>
VEERY_GPU T remainder_of(T a, T b) {
  if constexpr (kIsFloat<T>) {
    const T rest = std::fmod(a, b);
    if (rest == T{0}) return std::copysign(T{0}, b);
    return is_negative(rest) != is_negative(b) ? rest + b : rest;
  } else {
    if (b == T{0} || (kIsSigned<T> && b == static_cast<T>(-1))) return T{0};
    const T rest = static_cast<T>(a % b);
    return rest != T{0} && is_negative(rest) != is_negative(b) ? static_cast<T>(rest + b) : rest;
  }
}
template <typename T>
VEERY_GPU T floor_quotient(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (b == T{0}) return a / b;
    const T rest = std::fmod(a, b);
    const T quotient =
        (a - rest) / b - (rest != T{0} && is_negative(rest) != is_negative(b) ? T{1} : T{0});
    if (quotient == T{0}) return std::copysign(T{0}, a / b);
    const T down = std::floor(quotient);
    return quotient - down > T{0.5} ? down + T{1} : down;
  } else {
    if (b == T{0}) return T{0};
    if (kIsSigned<T> && b == static_cast<T>(-1)) return negative_number(a);
    const T quotient = static_cast<T>(a / b);
    return a % b != T{0} && is_negative(a) != is_negative(b) ? static_cast<T>(quotient - 1)
                                                             : quotient;
  }
}
template <typename T>
VEERY_GPU T power_of(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return std::pow(a, b);
  } else {
    if (is_negative(b))
      return a == T{1} ? T{1} : a == static_cast<T>(-1) ? (b % 2 != 0 ? a : T{1}) : T{0};
    T result{1};
    for (T rest = b; rest != T{0}; rest = static_cast<T>(rest >> 1)) {
      if ((rest & 1) != 0) result = multiply_numbers(result, a);
      a = multiply_numbers(a, a);
    }
    return result;
  }
}

// The functions of kernels/cpu/tensor/float_loops.cc.

VEERY_GPU float exp_all(float x) {
  const bool large = x > 88.0F, small = x < -87.0F;
  const float d = large ? 1.0F : small ? -20.0F : 0.0F;
  const float factor = large ? 2.71828183F : small ? 2.06115362e-9F : 1.0F;
  return exp_f32(x - d) * factor;
}
VEERY_GPU float log_normal(float x) {
  const auto v = static_cast<uint32_t>(float_to_bits(x));
  const auto exponent = (static_cast<int32_t>(v + uint32_t{0x3f800000 - 0x3f3504f3}) >> 23) - 127;
  const float m = bits_to_float(static_cast<int32_t>(v - (static_cast<uint32_t>(exponent) << 23)));
  const float f = m - 1.0F;
  const float s = f / (m + 1.0F);
  const float z = s * s;
  float p = 2.0F / 9;
  p = fma(p, z, 2.0F / 7);
  p = fma(p, z, 2.0F / 5);
  p = fma(p, z, 2.0F / 3);
  const auto e = static_cast<float>(exponent);
  const float tail = fma(s * z, p, e * -2.12194440e-4F);
  return fma(e, 0.693359375F, f + (tail - s * f));
}
VEERY_GPU float log_all(float x) {
  const bool small = x < 0x1p-126F;
  const float normal = log_normal(small ? x * 0x1p23F : x);
  const float y = small ? normal - 15.942385F : normal;
  const float infinity = bits_to_float(0x7f800000);
  if (x > 0.0F) return x < infinity ? y : x;
  if (x == 0.0F) return -infinity;
  return x != x ? x : bits_to_float(0x7fc00000);
}
VEERY_GPU float tanh_all(float x) { return x != x ? x : tanh_f32(x); }
VEERY_GPU float sigmoid_all(float x) { return 1.0F / (1.0F + exp_all(negative(x))); }

/// Functions of floats that are computed one element at a time (ElementSteps::kPrecise).
template <typename T>
VEERY_GPU T precise_float(ElementOp op, T x, T y) {
  switch (op) {
    case kFloorDivide: return floor_quotient(x, y);
    case kRemainder: return remainder_of(x, y);
    case kPower: return std::pow(x, y);
    case kArctan2: return std::atan2(x, y);
    case kHypot: return std::hypot(x, y);
    case kExp: return std::exp(x);
    case kExp2: return std::exp2(x);
    case kExpm1: return std::expm1(x);
    case kLog: return std::log(x);
    case kLog2: return std::log2(x);
    case kLog10: return std::log10(x);
    case kLog1p: return std::log1p(x);
    case kSin: return std::sin(x);
    case kCos: return std::cos(x);
    case kTan: return std::tan(x);
    case kArcsin: return std::asin(x);
    case kArccos: return std::acos(x);
    case kArctan: return std::atan(x);
    case kSinh: return std::sinh(x);
    case kCosh: return std::cosh(x);
    case kTanh: return std::tanh(x);
    case kArcsinh: return std::asinh(x);
    case kArccosh: return std::acosh(x);
    case kArctanh: return std::atanh(x);
    case kErf: return std::erf(x);
    case kErfinv: return static_cast<T>(erfinv(static_cast<double>(x)));
    case kSigmoid: return T{1} / (T{1} + std::exp(-x));
    case kDivide: return x / y;
    case kSqrt: return std::sqrt(x);
    case kRsqrt: return T{1} / std::sqrt(x);
    case kReciprocal: return T{1} / x;
    case kFloor: return std::floor(x);
    case kCeil: return std::ceil(x);
    case kTruncate: return std::trunc(x);
    case kRound: return std::rint(x);
    case kCopySign: return std::copysign(x, y);
    default: return x;
  }
}
template <typename T>
VEERY_GPU T precise_integer(ElementOp op, T x, T y) {
  switch (op) {
    case kFloorDivide: return floor_quotient(x, y);
    case kRemainder: return remainder_of(x, y);
    case kPower: return power_of(x, y);
    default: return x;
  }
}

/// Converts towards zero and saturates; NaN gives 0. `end`: the least float above `high`.
VEERY_GPU int64_t saturated(double x, int64_t low, int64_t high) {
  if (x != x) return 0;
  if (x >= static_cast<double>(high)) return high;
  return x <= static_cast<double>(low) ? low : static_cast<int64_t>(x);
}
VEERY_GPU int64_t least_of(ElementType type) {
  switch (type) {
    case ElementType::kI8: return -128;
    case ElementType::kI32: return INT32_MIN;
    case ElementType::kI64: return INT64_MIN;
    default: return 0;
  }
}
VEERY_GPU int64_t most_of(ElementType type) {
  switch (type) {
    case ElementType::kU8: return 255;
    case ElementType::kI8: return 127;
    case ElementType::kI32: return INT32_MAX;
    case ElementType::kU32: return UINT32_MAX;
    default: return INT64_MAX;
  }
}
/// An integer as the word of another type of integers.
template <typename Word>
VEERY_GPU Word wrapped(int64_t x, ElementType to) {
  switch (to) {
    case ElementType::kBool: return x != 0 ? 1 : 0;
    case ElementType::kU8: return to_word<Word>(static_cast<uint8_t>(x));
    case ElementType::kI8: return to_word<Word>(static_cast<int8_t>(x));
    case ElementType::kI32: return to_word<Word>(static_cast<int32_t>(x));
    case ElementType::kU32: return to_word<Word>(static_cast<uint32_t>(x));
    default: return static_cast<Word>(x);
  }
}
template <typename Word>
VEERY_GPU Word cast_word(Word x, ElementType from, ElementType to) {
  if (from == ElementType::kF32 || from == ElementType::kF64) {
    // Each f32 is an f64, so that one conversion serves both.
    const double value =
        from == ElementType::kF64 ? from_word<double>(x) : static_cast<double>(from_word<float>(x));
    if (to == ElementType::kF32) return to_word<Word>(static_cast<float>(value));
    if (to == ElementType::kF64) return to_word<Word>(value);
    if (to == ElementType::kBool) return value != 0 ? 1 : 0;
    return wrapped<Word>(saturated(value, least_of(to), most_of(to)), to);
  }
  const int64_t value = from == ElementType::kU32   ? static_cast<int64_t>(static_cast<uint32_t>(x))
                        : from == ElementType::kI64 ? static_cast<int64_t>(x)
                                                    : static_cast<int64_t>(static_cast<int32_t>(x));
  if (to == ElementType::kF32) return to_word<Word>(static_cast<float>(value));
  if (to == ElementType::kF64) return to_word<Word>(static_cast<double>(value));
  return wrapped<Word>(value, to);
}

/// One element of a step that is kPrecise.
template <typename Word>
VEERY_GPU Word precise_step(ElementStep step, Word x, Word y) {
  const auto op = static_cast<ElementOp>(step.op);
  const auto type = static_cast<ElementType>(step.type);
  if (op == kCast) return cast_word(x, type, static_cast<ElementType>(step.to));
  if (type == ElementType::kF32)
    return to_word<Word>(precise_float(op, from_word<float>(x), from_word<float>(y)));
  if constexpr (sizeof(Word) == 8) {
    if (type == ElementType::kF64)
      return to_word<Word>(precise_float(op, from_word<double>(x), from_word<double>(y)));
    if (type == ElementType::kI64)
      return to_word<Word>(precise_integer(op, from_word<int64_t>(x), from_word<int64_t>(y)));
  }
  switch (type) {
    case ElementType::kI8:
      return to_word<Word>(precise_integer(op, from_word<int8_t>(x), from_word<int8_t>(y)));
    case ElementType::kI32:
      return to_word<Word>(precise_integer(op, from_word<int32_t>(x), from_word<int32_t>(y)));
    case ElementType::kU32:
      return to_word<Word>(precise_integer(op, from_word<uint32_t>(x), from_word<uint32_t>(y)));
    default:
      return to_word<Word>(precise_integer(op, from_word<uint8_t>(x), from_word<uint8_t>(y)));
  }
}

template <typename T>
VEERY_GPU T combined_numbers(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum: return add_numbers(a, b);
    case ReduceOp::kProduct: return multiply_numbers(a, b);
    case ReduceOp::kMinimum: return least_number(a, b);
    default: return greatest_number(a, b);
  }
}
template <typename Word>
VEERY_GPU Word combined(ReduceOp op, ElementType type, Word a, Word b) {
  const auto as = [&](auto sample) {
    using T = decltype(sample);
    return to_word<Word>(combined_numbers(op, from_word<T>(a), from_word<T>(b)));
  };
  if constexpr (sizeof(Word) == 8) {
    if (type == ElementType::kF64) return as(double{});
    if (type == ElementType::kI64) return as(int64_t{});
  }
  switch (type) {
    case ElementType::kF32: return as(float{});
    case ElementType::kI8: return as(int8_t{});
    case ElementType::kI32: return as(int32_t{});
    case ElementType::kU32: return as(uint32_t{});
    default: return as(uint8_t{});
  }
}

/// An element in memory as a word, and back. f16 and bf16 are f32 in registers; their stores expect
/// numbers that need no rounding.
template <typename Word>
VEERY_GPU Word load_word(ElementType type, const uint8_t* data, int64_t at) {
  switch (type) {
    case ElementType::kI8: return to_word<Word>(reinterpret_cast<const int8_t*>(data)[at]);
    case ElementType::kI32: return to_word<Word>(reinterpret_cast<const int32_t*>(data)[at]);
    case ElementType::kU32:
    case ElementType::kF32: return reinterpret_cast<const uint32_t*>(data)[at];
    case ElementType::kF16:
      return to_word<Word>(f16_to_float(reinterpret_cast<const uint16_t*>(data)[at]));
    case ElementType::kBF16: return Word{reinterpret_cast<const uint16_t*>(data)[at]} << 16;
    case ElementType::kI64:
    case ElementType::kF64: return static_cast<Word>(reinterpret_cast<const uint64_t*>(data)[at]);
    default: return data[at];
  }
}
template <typename Word>
VEERY_GPU void store_word(ElementType type, uint8_t* data, int64_t at, Word x) {
  switch (type) {
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kF32: reinterpret_cast<uint32_t*>(data)[at] = static_cast<uint32_t>(x); break;
    case ElementType::kF16:
      reinterpret_cast<uint16_t*>(data)[at] = float_to_f16(from_word<float>(x));
      break;
    case ElementType::kBF16:
      reinterpret_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(static_cast<uint32_t>(x) >> 16);
      break;
    case ElementType::kI64:
    case ElementType::kF64: reinterpret_cast<uint64_t*>(data)[at] = static_cast<uint64_t>(x); break;
    default: data[at] = static_cast<uint8_t>(x);
  }
}

}  // namespace veery::gpu

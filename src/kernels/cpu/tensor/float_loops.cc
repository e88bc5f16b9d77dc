#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/float_loops.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/numbers-inl.h"
//
#include "kernels/common/erfinv.h"
#include "kernels/cpu/tensor/loop_tables.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// A functor for a function of the C++ library.
#define VEERY_UNARY(Name, expression) \
  struct Name {                       \
    template <typename T>             \
    static HWY_INLINE auto of(T x) {  \
      return expression;              \
    }                                 \
  };
#define VEERY_BINARY(Name, expression)    \
  struct Name {                           \
    template <typename T>                 \
    static HWY_INLINE auto of(T x, T y) { \
      return expression;                  \
    }                                     \
  };
VEERY_UNARY(IsNan, static_cast<uint8_t>(x != x))
VEERY_UNARY(IsInfinite, static_cast<uint8_t>(std::fabs(x) == std::numeric_limits<T>::infinity()))
VEERY_BINARY(Divide, x / y)
VEERY_BINARY(Arctan2, std::atan2(x, y))
VEERY_BINARY(Hypot, std::hypot(x, y))
VEERY_BINARY(CopySign, std::copysign(x, y))
VEERY_UNARY(Exp, std::exp(x))
VEERY_UNARY(Exp2, std::exp2(x))
VEERY_UNARY(Expm1, std::expm1(x))
VEERY_UNARY(Log, std::log(x))
VEERY_UNARY(Log2, std::log2(x))
VEERY_UNARY(Log10, std::log10(x))
VEERY_UNARY(Log1p, std::log1p(x))
VEERY_UNARY(Sqrt, std::sqrt(x))
VEERY_UNARY(Rsqrt, T{1} / std::sqrt(x))
VEERY_UNARY(Reciprocal, T{1} / x)
VEERY_UNARY(Sin, std::sin(x))
VEERY_UNARY(Cos, std::cos(x))
VEERY_UNARY(Tan, std::tan(x))
VEERY_UNARY(Arcsin, std::asin(x))
VEERY_UNARY(Arccos, std::acos(x))
VEERY_UNARY(Arctan, std::atan(x))
VEERY_UNARY(Sinh, std::sinh(x))
VEERY_UNARY(Cosh, std::cosh(x))
VEERY_UNARY(Tanh, std::tanh(x))
VEERY_UNARY(Arcsinh, std::asinh(x))
VEERY_UNARY(Arccosh, std::acosh(x))
VEERY_UNARY(Arctanh, std::atanh(x))
VEERY_UNARY(Erf, std::erf(x))
VEERY_UNARY(Erfinv, static_cast<T>(erfinv(x)))
VEERY_UNARY(Sigmoid, T{1} / (T{1} + std::exp(-x)))
VEERY_UNARY(Floor, std::floor(x))
VEERY_UNARY(Ceil, std::ceil(x))
VEERY_UNARY(Truncate, std::trunc(x))
VEERY_UNARY(Round, std::nearbyint(x))
#undef VEERY_UNARY
#undef VEERY_BINARY

// e^x, also where exp() of simd-inl.h gives 0 or infinity too early: e^x = e^(x - d) e^d.
HWY_INLINE F32 exp_all(F32 x) {
  const Mask large = greater(x, set(88.0F)), small = greater(set(-87.0F), x);
  const F32 d = select(large, set(1.0F), select(small, set(-20.0F), zero()));
  const F32 factor = select(large, set(2.71828183F), select(small, set(2.06115362e-9F), set(1.0F)));
  return mul(exp(sub(x, d)), factor);
}

// ln x = e ln 2 + 2 artanh(s) with x = 2^e m, m in [1/sqrt 2, sqrt 2), s = (m - 1) / (m + 1), by
// the series of artanh. The caller handles numbers that are not positive and normal.
HWY_INLINE F32 log_normal(F32 x) {
  const I32 v = bits(x);
  // Adding the distance from sqrt(1/2) to 1 carries into the exponent if m >= sqrt 2.
  const I32 shifted = add(v, set(int32_t{0x3f800000 - 0x3f3504f3}));
  const I32 exponent = sub(sar<23>(shifted), set(int32_t{127}));
  const F32 m = as_float(sub(v, shl<23>(exponent)));
  const F32 f = sub(m, set(1.0F));
  const F32 s = div(f, add(m, set(1.0F)));
  const F32 z = mul(s, s);
  F32 p = set(2.0F / 9);
  p = fma(p, z, set(2.0F / 7));
  p = fma(p, z, set(2.0F / 5));
  p = fma(p, z, set(2.0F / 3));
  // 2s = f - s f, where f is exact.
  const F32 e = to_float(exponent);
  const F32 tail = fma(mul(s, z), p, mul(e, set(-2.12194440e-4F)));
  return fma(e, set(0.693359375F), add(f, sub(tail, mul(s, f))));
}

HWY_INLINE F32 log_all(F32 x) {
  const F32 least = set(0x1p-126F);
  const Mask small = greater(least, x);
  const F32 normal = log_normal(select(small, mul(x, set(0x1p23F)), x));
  const F32 y = select(small, sub(normal, set(15.942385F)), normal);
  const Mask finite = greater(set(HUGE_VALF), x);  // false for NaN and infinity
  const F32 positive = select(greater(x, zero()), select(finite, y, x), set(NAN));
  // +-0 gives -infinity; NaN stays NaN.
  const F32 of_zero = select(greater(abs(x), zero()), positive, set(-HUGE_VALF));
  return select(greater(abs(x), zero()), positive, select(greater(set(1.0F), abs(x)), of_zero, x));
}

struct VectorExp {
  static HWY_INLINE F32 of(F32 x) { return exp_all(x); }
};
struct VectorLog {
  static HWY_INLINE F32 of(F32 x) { return log_all(x); }
};
struct VectorTanh {
  static HWY_INLINE F32 of(F32 x) { return select(greater(abs(x), set(-1.0F)), tanh(x), x); }
};
struct VectorSigmoid {
  static HWY_INLINE F32 of(F32 x) { return div(set(1.0F), add(set(1.0F), exp_all(neg(x)))); }
};
struct VectorRoundBF16 {
  static HWY_INLINE F32 of(F32 x) { return as_float(round_to_bf16(x)); }
};
struct VectorRoundF16 {
  static HWY_INLINE F32 of(F32 x) {
    uint16_t halves[16];
    store_f16(halves, x);
    return load_f16(halves);
  }
};

template <typename Fn>
void vector_loop(const void* a, const void*, const void*, void* out, int64_t n) {
  const auto* x = static_cast<const float*>(a);
  auto* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, Fn::of(load(x + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) store_first(y + i, Fn::of(load_first(x + i, rest)), rest);
}

// Ops that have vector code of their own.
ElementLoop f32_loop(ElementOp op) {
  switch (op) {
    case kExp: return vector_loop<VectorExp>;
    case kLog: return vector_loop<VectorLog>;
    case kTanh: return vector_loop<VectorTanh>;
    case kSigmoid: return vector_loop<VectorSigmoid>;
    case kRoundF16: return vector_loop<VectorRoundF16>;
    case kRoundBF16: return vector_loop<VectorRoundBF16>;
    default: return nullptr;
  }
}

template <typename T>
ElementLoop library_loop(ElementOp op) {
  switch (op) {
    case kArctan2: return binary_loop<Arctan2, T>;
    case kHypot: return binary_loop<Hypot, T>;
    case kExp: return unary_loop<Exp, T>;
    case kExp2: return unary_loop<Exp2, T>;
    case kExpm1: return unary_loop<Expm1, T>;
    case kLog: return unary_loop<Log, T>;
    case kLog2: return unary_loop<Log2, T>;
    case kLog10: return unary_loop<Log10, T>;
    case kLog1p: return unary_loop<Log1p, T>;
    case kSin: return unary_loop<Sin, T>;
    case kCos: return unary_loop<Cos, T>;
    case kTan: return unary_loop<Tan, T>;
    case kArcsin: return unary_loop<Arcsin, T>;
    case kArccos: return unary_loop<Arccos, T>;
    case kArctan: return unary_loop<Arctan, T>;
    case kSinh: return unary_loop<Sinh, T>;
    case kCosh: return unary_loop<Cosh, T>;
    case kTanh: return unary_loop<Tanh, T>;
    case kArcsinh: return unary_loop<Arcsinh, T>;
    case kArccosh: return unary_loop<Arccosh, T>;
    case kArctanh: return unary_loop<Arctanh, T>;
    case kErf: return unary_loop<Erf, T>;
    case kErfinv: return unary_loop<Erfinv, T>;
    case kSigmoid: return unary_loop<Sigmoid, T>;
    default: return nullptr;
  }
}

template <typename T>
ElementLoop plain_loop(ElementOp op) {
  switch (op) {
    case kIsNan: return unary_loop<IsNan, T>;
    case kIsInfinite: return unary_loop<IsInfinite, T>;
    case kDivide: return binary_loop<Divide, T>;
    case kCopySign: return binary_loop<CopySign, T>;
    case kSqrt: return unary_loop<Sqrt, T>;
    case kRsqrt: return unary_loop<Rsqrt, T>;
    case kReciprocal: return unary_loop<Reciprocal, T>;
    case kFloor: return unary_loop<Floor, T>;
    case kCeil: return unary_loop<Ceil, T>;
    case kTruncate: return unary_loop<Truncate, T>;
    case kRound: return unary_loop<Round, T>;
    default: break;
  }
  const ElementLoop loop = number_loop<T>(op);
  return loop != nullptr ? loop : library_loop<T>(op);
}

ElementLoop float_loop(ElementOp op, ElementType type) {
  if (type == ElementType::kF64) return plain_loop<double>(op);
  if (type != ElementType::kF32) return nullptr;
  const ElementLoop loop = f32_loop(op);
  return loop != nullptr ? loop : plain_loop<float>(op);
}

}  // namespace

using FindLoop = ElementLoop (*)(ElementOp op, ElementType type);
constexpr FindLoop kFindLoop[] = {float_loop};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

ElementLoop float_loop(Target target, ElementOp op, ElementType type) {
  return VEERY_FOR_F32_TARGET(target, kFindLoop)[0](op, type);
}

}  // namespace veery
#endif

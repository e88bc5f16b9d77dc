#include "tensor/elementwise.h"

#include <algorithm>
#include <cmath>

#include "tensor/element_group.h"

namespace veery::tensor {
namespace {

using enum ElementOp;

constexpr Dtype kDefaultFloat = Dtype::kF32;
constexpr double kLn2 = 0.693147180559945309, kLn10 = 2.302585092994045684;
constexpr double kTwoBySqrtPi = 1.128379167095512574;

// The types that an API function accepts for its operands.
enum class Wants : uint8_t { kAny, kNumbers, kFloats, kIntegers, kBits };

Dtype operand_type(std::string_view function, Dtype type, Wants wants) {
  switch (wants) {
    case Wants::kAny: return type;
    case Wants::kNumbers: return type == Dtype::kBool ? Dtype::kI32 : type;
    case Wants::kFloats: return is_float(type) ? type : kDefaultFloat;
    case Wants::kIntegers:
      if (!is_integer(type))
        fail(ErrorKind::kInput, "{}: operands of {}, expected integers", function, name(type));
      return type;
    case Wants::kBits:
      if (is_float(type))
        fail(ErrorKind::kInput, "{}: operands of {}, expected integers or bool", function,
             name(type));
      return type;
  }
  return type;
}

// The type that a number takes beside a tensor of `type`.
Dtype scalar_type(const Scalar& value, Dtype type) {
  switch (value.kind()) {
    case Scalar::Kind::kBool: return type;
    case Scalar::Kind::kInteger: return type == Dtype::kBool ? Dtype::kI32 : type;
    case Scalar::Kind::kFloat: return is_float(type) ? type : kDefaultFloat;
  }
  return type;
}

Tensor unary(std::string_view function, ElementOp op, const Tensor& x, Wants wants) {
  require(function, x);
  const Dtype type = operand_type(function, x.dtype(), wants);
  return elementwise(op, {astype(x, type)}, is_test(op) ? Dtype::kBool : type);
}
// Integers have no fractions to round.
Tensor rounding(std::string_view function, ElementOp op, const Tensor& x) {
  require(function, x);
  return is_float(x.dtype()) ? elementwise(op, {x}, x.dtype()) : x;
}
Tensor binary(std::string_view function, ElementOp op, const Tensor& a, const Tensor& b,
              Wants wants) {
  require(function, a);
  require(function, b);
  const Dtype type = operand_type(function, promote(a.dtype(), b.dtype()), wants);
  const Shape shape = broadcast(function, a.shape(), b.shape());
  return elementwise(op,
                     {broadcast_to(astype(a, type), shape), broadcast_to(astype(b, type), shape)},
                     is_test(op) ? Dtype::kBool : type);
}

Tensor beside(std::string_view function, Scalar value, const Tensor& x) {
  require(function, x);
  return constant(function, value, scalar_type(value, x.dtype()));
}

Tensor as_bool(const Tensor& x) { return astype(x, Dtype::kBool); }

Tensor zero(const Tensor& like) { return constant("zero", 0, like.dtype()); }

}  // namespace

void require_fit(std::string_view function, int64_t value, Dtype type) {
  const int bits = 8 * static_cast<int>(byte_size(type));
  const bool is_signed = info(element_type(type)).is_signed;
  const int64_t most = bits == 64 ? INT64_MAX : (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  const int64_t least = !is_signed ? 0 : bits == 64 ? INT64_MIN : -most - 1;
  if (value < least || value > most)
    fail(ErrorKind::kInput, "{}: {} is no number of type {}", function, value, name(type));
}

Tensor constant(std::string_view function, Scalar value, Dtype type) {
  if (type == Dtype::kBool) value = Scalar(value.real() != 0);
  if (is_integer(type)) {
    if (value.kind() == Scalar::Kind::kFloat) {
      if (!(std::fabs(value.real()) < 0x1p63))
        fail(ErrorKind::kInput, "{}: {} is no number of type {}", function, value.real(),
             name(type));
      value = Scalar(static_cast<int64_t>(value.real()));
    }
    require_fit(function, value.integer(), type);
  }
  return make(Constant(value), {}, {{}, type});
}

Tensor elementwise(ElementOp op, std::vector<Tensor> inputs, Dtype result) {
  Shape shape;
  for (const Tensor& x : inputs) shape = broadcast(veery::name(op), shape, x.shape());
  for (Tensor& x : inputs) x = broadcast_to(x, shape);
  return make(Elementwise(op), std::move(inputs), {std::move(shape), result});
}

std::vector<Data> Constant::evaluate(std::span<const Operand>, std::span<const Spec> out) const {
  const Spec& spec = out.front();
  Data data{Buffer::allocate(byte_size(spec.dtype)), 0, {}};
  ElementProgram program;
  program.constants.push_back(element_constant(0, spec.dtype, value_));
  program.outputs.push_back({0, {data.buffer->data(), element_type(spec.dtype), {}}});
  run_whole(program);
  return {std::move(data)};
}

Tensor astype(const Tensor& x, Dtype type) {
  require("astype", x);
  return x.dtype() == type ? x : elementwise(kCast, {x}, type);
}

Tensor as_wide_float(const Tensor& x) {
  return x.dtype() == Dtype::kF64 ? x : astype(x, kDefaultFloat);
}
Dtype float_type(const Tensor& x) { return is_float(x.dtype()) ? x.dtype() : kDefaultFloat; }

std::vector<Tensor> Elementwise::vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                                     std::span<const Tensor> cotangents,
                                     const std::vector<bool>& wanted) const {
  std::vector<Tensor> result(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    if (wanted[i])
      result[i] = times_derivative(op_, i, in, out.front(), cotangents.front(), in[i].dtype());
  return result;
}

std::vector<Tensor> Elementwise::jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                                     std::span<const Tensor> tangents) const {
  Tensor sum;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!tangents[i]) continue;
    const Tensor term = times_derivative(op_, i, in, out.front(), tangents[i], out.front().dtype());
    if (term) sum = sum ? sum + term : term;
  }
  return {sum};
}

// Inputs without a batch are broadcast.
std::vector<Tensor> Elementwise::batch(const Batch& in, std::span<const Spec> out) const {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < in.count(); ++i) inputs.push_back(in[i]);
  return {elementwise(op_, std::move(inputs), out.front().dtype)};
}

namespace {

Tensor of_binary(ElementOp op, size_t index, std::span<const Tensor> in, const Tensor& out,
                 const Tensor& t) {
  const Tensor &a = in[0], &b = in[1];
  const bool first = index == 0;
  switch (op) {
    case kAdd: return t;
    case kSubtract: return first ? t : -t;
    case kMultiply: return t * (first ? b : a);
    case kDivide: return first ? t / b : -(t * out / b);
    case kMinimum:
    case kMaximum:  // equal operands share the derivative
      return where(equal(in[index], out), where(equal(a, b), t * 0.5, t), 0);
    case kRemainder: return first ? t : -(t * floor_divide(a, b));
    case kPower:
      if (first) return t * where(equal(b, 0), zero(b), b * pow(a, b - 1));
      return t * where(equal(a, 0), zero(a), out * log(a));
    case kArctan2: return first ? t * b / (a * a + b * b) : -(t * a / (a * a + b * b));
    case kHypot: return t * in[index] / out;
    case kCopySign: return first ? where(equal(out, a), t, -t) : Tensor{};
    default: return {};
  }
}

Tensor of_unary(ElementOp op, const Tensor& x, const Tensor& y, const Tensor& t) {
  switch (op) {
    case kCopy: return t;
    case kNegate: return -t;
    case kAbsolute: return t * sign(x);
    case kExp: return t * y;
    case kExp2: return t * (y * kLn2);
    case kExpm1: return t * (y + 1);
    case kLog: return t / x;
    case kLog2: return t / (x * kLn2);
    case kLog10: return t / (x * kLn10);
    case kLog1p: return t / (x + 1);
    case kSqrt: return t / (y * 2);
    case kRsqrt: return t * (y / x * -0.5);
    case kReciprocal: return -(t * (y * y));
    case kSin: return t * cos(x);
    case kCos: return -(t * sin(x));
    case kTan: return t * (y * y + 1);
    case kArcsin: return t * rsqrt(1 - x * x);
    case kArccos: return -(t * rsqrt(1 - x * x));
    case kArctan: return t / (x * x + 1);
    case kSinh: return t * cosh(x);
    case kCosh: return t * sinh(x);
    case kTanh: return t * (1 - y * y);
    case kArcsinh: return t * rsqrt(x * x + 1);
    case kArccosh: return t * rsqrt(x * x - 1);
    case kArctanh: return t / (1 - x * x);
    case kErf: return t * (exp(-(x * x)) * kTwoBySqrtPi);
    case kErfinv: return t * (exp(y * y) / kTwoBySqrtPi);
    case kSigmoid: return t * (y * (1 - y));
    default: return {};
  }
}

}  // namespace

Tensor times_derivative(ElementOp op, size_t index, std::span<const Tensor> in, const Tensor& out,
                        const Tensor& t, Dtype to) {
  if (!is_float(out.dtype()) || !is_float(in[index].dtype())) return {};
  switch (operand_count(op)) {
    case 1: return op == kCast ? astype(t, to) : of_unary(op, in[0], out, t);
    case 2: return of_binary(op, index, in, out, t);
    default: return index == 1 ? where(in[0], t, 0) : where(in[0], 0, t);
  }
}

Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  require("where", condition);
  require("where", yes);
  require("where", no);
  const Dtype type = promote(yes.dtype(), no.dtype());
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", yes.shape(), no.shape()));
  return elementwise(
      kSelect,
      {broadcast_to(as_bool(condition), shape), broadcast_to(astype(yes, type), shape),
       broadcast_to(astype(no, type), shape)},
      type);
}
Tensor where(const Tensor& condition, const Tensor& yes, Scalar no) {
  return where(condition, yes, beside("where", no, yes));
}
Tensor where(const Tensor& condition, Scalar yes, const Tensor& no) {
  return where(condition, beside("where", yes, no), no);
}

namespace {

// ln(e^a + e^b). The larger operand stays outside of the exponential; equal infinities have no
// difference. One condition decides, so that all derivatives are right where a = b.
Tensor log_of_sum(const Tensor& x, const Tensor& y) {
  require("logaddexp", x);
  require("logaddexp", y);
  const Dtype type = promote(x.dtype(), y.dtype());
  const Tensor a = as_wide_float(astype(x, type)), b = as_wide_float(astype(y, type));
  const Tensor is_greater = greater(a, b);
  const Tensor difference = where(is_greater, b - a, where(equal(a, b) & isinf(a), 0, a - b));
  return astype(where(is_greater, a, b) + log1p(exp(difference)),
                is_float(type) ? type : kDefaultFloat);
}

// Applies a function that is a chain of others, and rounds its result once.
template <typename Chain>
Tensor rounded_once(std::string_view function, const Tensor& x, const Chain& chain) {
  require(function, x);
  return astype(chain(as_wide_float(x)), float_type(x));
}

}  // namespace

// A function of two operands, each of which may be a number.
// Ends with a declaration, so that a use takes a semicolon.
#define VEERY_BINARY(function, call)                                                          \
  Tensor function(const Tensor& a, const Tensor& b) { return call; }                          \
  Tensor function(const Tensor& a, Scalar b) { return function(a, beside(#function, b, a)); } \
  Tensor function(Scalar a, const Tensor& b) { return function(beside(#function, a, b), b); } \
  Tensor function(const Tensor& a, const Tensor& b)
#define VEERY_BINARY_OP(function, op, wants) \
  VEERY_BINARY(function, binary(#function, op, a, b, Wants::wants))
VEERY_BINARY_OP(add, kAdd, kNumbers);
VEERY_BINARY_OP(subtract, kSubtract, kNumbers);
VEERY_BINARY_OP(multiply, kMultiply, kNumbers);
VEERY_BINARY_OP(divide, kDivide, kFloats);
VEERY_BINARY_OP(floor_divide, kFloorDivide, kNumbers);
VEERY_BINARY_OP(remainder, kRemainder, kNumbers);
VEERY_BINARY_OP(pow, kPower, kNumbers);
VEERY_BINARY_OP(minimum, kMinimum, kNumbers);
VEERY_BINARY_OP(maximum, kMaximum, kNumbers);
VEERY_BINARY_OP(atan2, kArctan2, kFloats);
VEERY_BINARY_OP(hypot, kHypot, kFloats);
VEERY_BINARY_OP(copysign, kCopySign, kFloats);
VEERY_BINARY_OP(equal, kEqual, kAny);
VEERY_BINARY_OP(not_equal, kNotEqual, kAny);
VEERY_BINARY_OP(less, kLess, kAny);
VEERY_BINARY_OP(less_equal, kLessEqual, kAny);
VEERY_BINARY_OP(bitwise_and, kAnd, kBits);
VEERY_BINARY_OP(bitwise_or, kOr, kBits);
VEERY_BINARY_OP(bitwise_xor, kXor, kBits);
VEERY_BINARY_OP(bitwise_left_shift, kShiftLeft, kIntegers);
VEERY_BINARY_OP(bitwise_right_shift, kShiftRight, kIntegers);
VEERY_BINARY(greater, less(b, a));
VEERY_BINARY(greater_equal, less_equal(b, a));
VEERY_BINARY(logical_and, bitwise_and(as_bool(a), as_bool(b)));
VEERY_BINARY(logical_or, bitwise_or(as_bool(a), as_bool(b)));
VEERY_BINARY(logical_xor, bitwise_xor(as_bool(a), as_bool(b)));
VEERY_BINARY(logaddexp, log_of_sum(a, b));
#undef VEERY_BINARY
#undef VEERY_BINARY_OP

#define VEERY_UNARY(function, op, wants)                                             \
  Tensor function(const Tensor& x) { return unary(#function, op, x, Wants::wants); } \
  Tensor function(const Tensor& x)
VEERY_UNARY(bitwise_invert, kNot, kBits);
VEERY_UNARY(isnan, kIsNan, kFloats);
VEERY_UNARY(isinf, kIsInfinite, kFloats);
VEERY_UNARY(negative, kNegate, kNumbers);
VEERY_UNARY(abs, kAbsolute, kNumbers);
VEERY_UNARY(sign, kSign, kNumbers);
VEERY_UNARY(exp, kExp, kFloats);
VEERY_UNARY(exp2, kExp2, kFloats);
VEERY_UNARY(expm1, kExpm1, kFloats);
VEERY_UNARY(log, kLog, kFloats);
VEERY_UNARY(log2, kLog2, kFloats);
VEERY_UNARY(log10, kLog10, kFloats);
VEERY_UNARY(log1p, kLog1p, kFloats);
VEERY_UNARY(sqrt, kSqrt, kFloats);
VEERY_UNARY(rsqrt, kRsqrt, kFloats);
VEERY_UNARY(reciprocal, kReciprocal, kFloats);
VEERY_UNARY(sin, kSin, kFloats);
VEERY_UNARY(cos, kCos, kFloats);
VEERY_UNARY(tan, kTan, kFloats);
VEERY_UNARY(asin, kArcsin, kFloats);
VEERY_UNARY(acos, kArccos, kFloats);
VEERY_UNARY(atan, kArctan, kFloats);
VEERY_UNARY(sinh, kSinh, kFloats);
VEERY_UNARY(cosh, kCosh, kFloats);
VEERY_UNARY(tanh, kTanh, kFloats);
VEERY_UNARY(asinh, kArcsinh, kFloats);
VEERY_UNARY(acosh, kArccosh, kFloats);
VEERY_UNARY(atanh, kArctanh, kFloats);
VEERY_UNARY(erf, kErf, kFloats);
VEERY_UNARY(erfinv, kErfinv, kFloats);
VEERY_UNARY(sigmoid, kSigmoid, kFloats);
#undef VEERY_UNARY

Tensor logical_not(const Tensor& x) { return bitwise_invert(as_bool(x)); }
Tensor isfinite(const Tensor& x) { return bitwise_invert(bitwise_or(isnan(x), isinf(x))); }
Tensor floor(const Tensor& x) { return rounding("floor", kFloor, x); }
Tensor ceil(const Tensor& x) { return rounding("ceil", kCeil, x); }
Tensor trunc(const Tensor& x) { return rounding("trunc", kTruncate, x); }
Tensor round(const Tensor& x) { return rounding("round", kRound, x); }
Tensor square(const Tensor& x) { return x * x; }
// Its derivative at 0 is 0. NaN stays NaN.
Tensor relu(const Tensor& x) { return where(less_equal(x, 0), 0, x); }
Tensor silu(const Tensor& x) {
  return rounded_once("silu", x, [](const Tensor& y) { return y * sigmoid(y); });
}
Tensor gelu(const Tensor& x) {
  return rounded_once(
      "gelu", x, [](const Tensor& y) { return y * 0.5 * (erf(y * 0.70710678118654752440) + 1); });
}
Tensor gelu_tanh(const Tensor& x) {
  return rounded_once("gelu_tanh", x, [](const Tensor& y) {
    return y * 0.5 * (tanh((y + y * y * y * 0.044715) * 0.79788456080286535588) + 1);
  });
}
Tensor gelu_fast(const Tensor& x) {
  return rounded_once("gelu_fast", x, [](const Tensor& y) { return y * sigmoid(y * 1.702); });
}
// Written with one condition, so that the second derivative is right at 0, too.
Tensor softplus(const Tensor& x) {
  return rounded_once("softplus", x, [](const Tensor& y) {
    const Tensor is_positive = greater(y, 0);
    return where(is_positive, y, 0) + log1p(exp(where(is_positive, -y, y)));
  });
}
Tensor clip(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  // The derivative at a limit is 1. NaN stays NaN.
  Tensor y = x;
  if (low) y = where(less(y, *low), *low, y);
  if (high) y = where(greater(y, *high), *high, y);
  return y;
}

}  // namespace veery::tensor

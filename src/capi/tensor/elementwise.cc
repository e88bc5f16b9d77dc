// Element-wise calls: a family of calls is one line for each name.
#include "capi/tensor/handle.h"

using namespace veery;
using namespace veery::capi;

namespace {

using tensor::Scalar;
using tensor::Tensor;

/// Applies a function of two operands, of which one may be a number without a type.
template <typename Function>
Tensor of_two(const veery_tensor* a, const veery_tensor* b, const Function& function) {
  const veery_tensor &x = handle_of(a, "a"), &y = handle_of(b, "b");
  if (x.number && !y.number) return function(*x.number, y.tensor);
  if (y.number && !x.number) return function(x.tensor, *y.number);
  return function(x.tensor, y.tensor);
}

std::optional<Scalar> limit_of(const veery_tensor* limit, const char* name) {
  if (limit == nullptr) return std::nullopt;
  const veery_tensor& handle = handle_of(limit, name);
  if (!handle.number)
    throw Error(ErrorKind::kInput, "{} is a tensor, expected a number of veery_tensor_scalar()",
                name);
  return handle.number;
}

}  // namespace

// Ends with a declaration, so that a use takes a semicolon; the same for other families.
#define VEERY_TWO(name)                                                                     \
  veery_status veery_tensor_##name(const veery_tensor* a, const veery_tensor* b,            \
                                   veery_tensor** out) {                                    \
    return give(out, [&] {                                                                  \
      return of_two(a, b, [](const auto& x, const auto& y) { return tensor::name(x, y); }); \
    });                                                                                     \
  }                                                                                         \
  veery_status veery_tensor_##name(const veery_tensor* a, const veery_tensor* b, veery_tensor** out)
VEERY_TWO(add);
VEERY_TWO(subtract);
VEERY_TWO(multiply);
VEERY_TWO(divide);
VEERY_TWO(floor_divide);
VEERY_TWO(remainder);
VEERY_TWO(pow);
VEERY_TWO(minimum);
VEERY_TWO(maximum);
VEERY_TWO(atan2);
VEERY_TWO(hypot);
VEERY_TWO(copysign);
VEERY_TWO(logaddexp);
VEERY_TWO(equal);
VEERY_TWO(not_equal);
VEERY_TWO(less);
VEERY_TWO(less_equal);
VEERY_TWO(greater);
VEERY_TWO(greater_equal);
VEERY_TWO(logical_and);
VEERY_TWO(logical_or);
VEERY_TWO(logical_xor);
VEERY_TWO(bitwise_and);
VEERY_TWO(bitwise_or);
VEERY_TWO(bitwise_xor);
VEERY_TWO(bitwise_left_shift);
VEERY_TWO(bitwise_right_shift);
#undef VEERY_TWO

#define VEERY_ONE(name)                                                         \
  veery_status veery_tensor_##name(const veery_tensor* x, veery_tensor** out) { \
    return give(out, [&] { return tensor::name(tensor_of(x, "x")); });          \
  }                                                                             \
  veery_status veery_tensor_##name(const veery_tensor* x, veery_tensor** out)
VEERY_ONE(zeros_like);
VEERY_ONE(ones_like);
VEERY_ONE(logical_not);
VEERY_ONE(bitwise_invert);
VEERY_ONE(isnan);
VEERY_ONE(isinf);
VEERY_ONE(isfinite);
VEERY_ONE(negative);
VEERY_ONE(abs);
VEERY_ONE(sign);
VEERY_ONE(square);
VEERY_ONE(exp);
VEERY_ONE(exp2);
VEERY_ONE(expm1);
VEERY_ONE(log);
VEERY_ONE(log2);
VEERY_ONE(log10);
VEERY_ONE(log1p);
VEERY_ONE(sqrt);
VEERY_ONE(rsqrt);
VEERY_ONE(reciprocal);
VEERY_ONE(sin);
VEERY_ONE(cos);
VEERY_ONE(tan);
VEERY_ONE(asin);
VEERY_ONE(acos);
VEERY_ONE(atan);
VEERY_ONE(sinh);
VEERY_ONE(cosh);
VEERY_ONE(tanh);
VEERY_ONE(asinh);
VEERY_ONE(acosh);
VEERY_ONE(atanh);
VEERY_ONE(erf);
VEERY_ONE(erfinv);
VEERY_ONE(sigmoid);
VEERY_ONE(relu);
VEERY_ONE(silu);
VEERY_ONE(gelu);
VEERY_ONE(gelu_tanh);
VEERY_ONE(gelu_fast);
VEERY_ONE(softplus);
VEERY_ONE(floor);
VEERY_ONE(ceil);
VEERY_ONE(trunc);
VEERY_ONE(round);
VEERY_ONE(flatten);
VEERY_ONE(stop_gradient);
#undef VEERY_ONE

veery_status veery_tensor_where(const veery_tensor* condition, const veery_tensor* yes,
                                const veery_tensor* no, veery_tensor** out) {
  return give(out, [&] {
    const Tensor& chooses = tensor_of(condition, "condition");
    const veery_tensor &a = handle_of(yes, "yes"), &b = handle_of(no, "no");
    if (a.number && !b.number) return tensor::where(chooses, *a.number, b.tensor);
    if (b.number && !a.number) return tensor::where(chooses, a.tensor, *b.number);
    return tensor::where(chooses, a.tensor, b.tensor);
  });
}

veery_status veery_tensor_clip(const veery_tensor* x, const veery_tensor* low,
                               const veery_tensor* high, veery_tensor** out) {
  return give(out, [&] {
    return tensor::clip(tensor_of(x, "x"), limit_of(low, "low"), limit_of(high, "high"));
  });
}

// activate-inl.h: activation functions on vectors; ActivateAttr documents formulas and sources.
#if defined(VEERY_KERNELS_CPU_ACTIVATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ACTIVATE_INL_H
#undef VEERY_KERNELS_CPU_ACTIVATE_INL_H
#else
#define VEERY_KERNELS_CPU_ACTIVATE_INL_H
#endif

#include "graph/ops/ops.h"
#include "kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// NaNs propagate: max() and min() return their second argument if either is a NaN.
HWY_INLINE F32 relu(F32 x) { return max(zero(), x); }

HWY_INLINE F32 xielu(F32 x, const ActivateAttr& a) {
  const F32 above = mul(mul(set(a.positive), x), x);
  const F32 below = sub(sub(exp(min(set(a.eps), x)), set(1.0F)), x);
  const F32 curve = select(greater(x, zero()), above, mul(set(a.negative), below));
  return add(curve, mul(set(a.beta), x));
}

HWY_INLINE F32 activated(F32 x, const ActivateAttr& attr) {
  switch (attr.kind) {
    case Activation::kNone: return x;
    case Activation::kSilu: return silu(x);
    case Activation::kGelu: return gelu(x);
    case Activation::kGeluErf: return gelu_erf(x);
    case Activation::kRelu: return relu(x);
    case Activation::kReluSquared: return mul(relu(x), relu(x));
    case Activation::kXielu: return xielu(x, attr);
    case Activation::kTanh: return tanh(x);
    case Activation::kSigmoid: return sigmoid(x);
    case Activation::kSoftplus: return softplus(x);
    case Activation::kLogSigmoid: return neg(softplus(neg(x)));
    case Activation::kClip: return min(set(attr.positive), max(set(attr.negative), x));
  }
  return x;
}
// Applies the activation to several vectors, whose dependency chains overlap.
template <int kCount>
HWY_INLINE void activate(F32 (&v)[kCount], const ActivateAttr& attr) {
  const auto each = [&](const auto& fn) { unroll<kCount>([&](auto i) { v[i()] = fn(v[i()]); }); };
  switch (attr.kind) {
    case Activation::kNone: return;
    case Activation::kSilu: return each([](F32 x) { return silu(x); });
    case Activation::kGelu: return each([](F32 x) { return gelu(x); });
    default:
      for (F32& x : v) x = activated(x, attr);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ACTIVATE_INL_H

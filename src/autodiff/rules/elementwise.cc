#include "autodiff/rule.h"

namespace veery {
namespace {

// Reduces the gradient of an input that was broadcast over rows or columns.
Value gathered(const VjpContext& c, Value grad, int input) {
  return c.graph.shape(grad) == c.graph.shape(c.in(input))
             ? grad
             : c.make(op::kSumTo, {grad, c.in(input)});
}
// Broadcasts a tangent to the shape of the output.
Value spread(const JvpContext& c, Value tangent) {
  if (!tangent || c.graph.shape(tangent) == c.node().shape()) return tangent;
  return c.make(op::kSpreadTo, {tangent, c.in(BinaryIn::kA)});
}

Inputs add_vjp(const VjpContext& c) {
  return inputs({c.dy(), c.wants(BinaryIn::kB) ? gathered(c, c.dy(), BinaryIn::kB) : kNoValue});
}
Tangents add_jvp(const JvpContext& c) {
  return c.t(BinaryIn::kA) ? c.sum(c.t(BinaryIn::kA), c.t(BinaryIn::kB))
                           : spread(c, c.t(BinaryIn::kB));
}

Inputs mul_vjp(const VjpContext& c) {
  Inputs grad{};
  if (c.wants(BinaryIn::kA)) grad[BinaryIn::kA] = c.make(op::kMul, {c.dy(), c.in(BinaryIn::kB)});
  if (c.wants(BinaryIn::kB))
    grad[BinaryIn::kB] = gathered(c, c.make(op::kMul, {c.dy(), c.in(BinaryIn::kA)}), BinaryIn::kB);
  return grad;
}
// The second input of sum_to gives only its shape.
Inputs sum_to_vjp(const VjpContext& c) {
  return inputs({c.make(op::kSpreadTo, {c.dy(), c.in(BinaryIn::kA)})});
}
Tangents sum_to_jvp(const JvpContext& c) {
  const Value t = c.t(BinaryIn::kA);
  return t ? c.make(op::kSumTo, {t, c.in(BinaryIn::kB)}) : kNoValue;
}

Tangents mul_jvp(const JvpContext& c) {
  // The input that may be broadcast is the second one.
  const Value a = c.t(BinaryIn::kA), b = c.t(BinaryIn::kB);
  return c.sum(a ? c.make(op::kMul, {a, c.in(BinaryIn::kB)}) : kNoValue,
               b ? c.make(op::kMul, {c.in(BinaryIn::kA), b}) : kNoValue);
}

Inputs scale_vjp(const VjpContext& c) {
  return inputs({c.make(op::kScale, {c.dy()}, c.node().attr)});
}
Tangents scale_jvp(const JvpContext& c) {
  return c.make(op::kScale, {c.t(UnaryIn::kX)}, c.node().attr);
}

// Elementwise functions have a diagonal Jacobian, which equals its transpose.
template <const OpDef& kBack>
Inputs diagonal_vjp(const VjpContext& c) {
  return inputs({c.make(kBack, {c.dy(), c.in(UnaryIn::kX)}, c.node().attr)});
}
template <const OpDef& kBack>
Tangents diagonal_jvp(const JvpContext& c) {
  return c.make(kBack, {c.t(UnaryIn::kX), c.in(UnaryIn::kX)}, c.node().attr);
}

// Rounding counts as the identity (straight-through). Integers have no gradient.
Inputs cast_vjp(const VjpContext& c) {
  const DType from = c.graph.type(c.in(UnaryIn::kX)).dtype;
  if (from == DType::kI32 || from == DType::kU8) return {};
  return inputs({c.make(op::kCast, {c.dy()}, CastAttr{from})});
}
Tangents cast_jvp(const JvpContext& c) {
  return c.make(op::kCast, {c.t(UnaryIn::kX)}, c.node().attr);
}

constexpr DiffDef kRules[] = {
    {op::kAdd, add_vjp, add_jvp},
    {op::kMul, mul_vjp, mul_jvp},
    {op::kSumTo, sum_to_vjp, sum_to_jvp},
    {op::kScale, scale_vjp, scale_jvp},
    {op::kActivate, diagonal_vjp<op::kActivateBack>, diagonal_jvp<op::kActivateBack>},
    {op::kCast, cast_vjp, cast_jvp},
    {op::kSoftcap, diagonal_vjp<op::kSoftcapBack>, diagonal_jvp<op::kSoftcapBack>},
};

}  // namespace

DiffTable elementwise_rules() { return kRules; }

}  // namespace veery

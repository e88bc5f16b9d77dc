#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs linear_vjp(const VjpContext& c) {
  Inputs grad{};
  if (c.wants(LinearIn::kX))
    grad[LinearIn::kX] = c.make(op::kLinearBackX, {c.dy(), c.in(LinearIn::kWeight)});
  if (c.wants(LinearIn::kWeight))
    grad[LinearIn::kWeight] = c.make(op::kLinearBackW, {c.dy(), c.in(LinearIn::kX)});
  if (c.wants(LinearIn::kBias))
    grad[LinearIn::kBias] = c.make(op::kBiasBack, {c.dy(), c.in(LinearIn::kBias)});
  return grad;
}

// The product is bilinear in x and the weight; the tangent of the bias is added once.
Tangents linear_jvp(const JvpContext& c) {
  const Value x = c.in(LinearIn::kX), weight = c.in(LinearIn::kWeight);
  const Value dx = c.t(LinearIn::kX), dw = c.t(LinearIn::kWeight), db = c.t(LinearIn::kBias);
  const auto product = [&](Value a, Value w, Value bias) {
    return c.make(op::kLinear, {a, w, bias}, LinearAttr{});
  };
  if (dx) return c.sum(product(dx, weight, db), dw ? product(x, dw, {}) : kNoValue);
  if (dw) return product(x, dw, db);
  return product(c.make(op::kScale, {x}, ScaleAttr{0}), weight, db);
}

Inputs head_linear_vjp(const VjpContext& c) {
  const Attr attr = c.node().attr;
  const Value x = c.in(HeadLinearIn::kX), weight = c.in(HeadLinearIn::kWeight);
  Inputs grad{};
  if (c.wants(HeadLinearIn::kX))
    grad[HeadLinearIn::kX] = c.make(op::kHeadLinearBackX, {c.dy(), weight}, attr);
  if (c.wants(HeadLinearIn::kWeight))
    grad[HeadLinearIn::kWeight] = c.make(op::kHeadLinearBackW, {c.dy(), x, weight}, attr);
  return grad;
}
Tangents head_linear_jvp(const JvpContext& c) {
  return c.make(op::kHeadLinearTangent,
                {c.in(HeadLinearIn::kX), c.in(HeadLinearIn::kWeight), c.t(HeadLinearIn::kX),
                 c.t(HeadLinearIn::kWeight)},
                c.node().attr);
}

constexpr DiffDef kRules[] = {
    {op::kLinear, linear_vjp, linear_jvp},
    {op::kHeadLinear, head_linear_vjp, head_linear_jvp},
};

}  // namespace

DiffTable linear_rules() { return kRules; }

}  // namespace veery

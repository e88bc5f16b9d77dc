#include "autodiff/rule.h"

namespace veery {
namespace {

bool is_plain(const Node& node) {
  const auto& attr = node.as<LinearAttr>();
  return attr.weights == 1 && attr.gate == Activation::kNone && attr.scale == 1 &&
         !node.in[LinearIn::kNorm] && !node.in[LinearIn::kResidual];
}

void require_plain(const Node& node) {
  if (!is_plain(node))
    throw Error(ErrorKind::kUnsupported,
                "linear: a fused linear has no derivative; differentiate before fusion");
}

Inputs linear_vjp(const VjpContext& c) {
  require_plain(c.node());
  Inputs grad{};
  if (c.wants(LinearIn::kX))
    grad[LinearIn::kX] = c.make(op::kLinearBackX, {c.dy(), c.in(LinearIn::kWeight)});
  if (c.wants(LinearIn::kWeight))
    grad[LinearIn::kWeight] = c.make(op::kLinearBackW, {c.dy(), c.in(LinearIn::kX)});
  if (c.wants(LinearIn::kBias))
    grad[LinearIn::kBias] = c.make(op::kBiasBack, {c.dy(), c.in(LinearIn::kBias)});
  return grad;
}

Value product(const JvpContext& c, Value x, Value weight, Value bias) {
  Inputs in{};
  in[LinearIn::kX] = x;
  in[LinearIn::kWeight] = weight;
  in[LinearIn::kBias] = bias;
  return c.graph.add(op::kLinear, in, LinearAttr{});
}

// The product is bilinear in x and the weight; the tangent of the bias is added once.
Value linear_jvp(const JvpContext& c) {
  require_plain(c.node());
  const Value x = c.in(LinearIn::kX), weight = c.in(LinearIn::kWeight);
  const Value dx = c.t(LinearIn::kX), dw = c.t(LinearIn::kWeight), db = c.t(LinearIn::kBias);
  if (dx) return c.sum(product(c, dx, weight, db), dw ? product(c, x, dw, {}) : kNoValue);
  if (dw) return product(c, x, dw, db);
  return product(c, c.make(op::kScale, {x}, ScaleAttr{0}), weight, db);
}

constexpr DiffDef kRules[] = {
    {op::kLinear, linear_vjp, linear_jvp},
    {.op = op::kHeadLinear,
     .no_vjp = "there is no kernel for the products with its transposed matrices",
     .no_jvp = "as for vjp"},
};

}  // namespace

DiffTable linear_rules() { return kRules; }

}  // namespace veery

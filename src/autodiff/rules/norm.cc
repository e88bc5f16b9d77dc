#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs rms_norm_vjp(const VjpContext& c) {
  const Attr attr = c.node().attr;
  const Value x = c.in(RmsNormIn::kX);
  Inputs grad{};
  if (c.wants(RmsNormIn::kX))
    grad[RmsNormIn::kX] = c.make(op::kRmsNormBackX, {c.dy(), x, c.in(RmsNormIn::kWeight)}, attr);
  if (c.wants(RmsNormIn::kWeight))
    grad[RmsNormIn::kWeight] = c.make(op::kRmsNormBackW, {c.dy(), x}, attr);
  return grad;
}

Tangents rms_norm_jvp(const JvpContext& c) {
  return c.make(
      op::kRmsNormTangent,
      {c.in(RmsNormIn::kX), c.in(RmsNormIn::kWeight), c.t(RmsNormIn::kX), c.t(RmsNormIn::kWeight)},
      c.node().attr);
}

Inputs layer_norm_vjp(const VjpContext& c) {
  const Attr attr = c.node().attr;
  const Value x = c.in(LayerNormIn::kX), weight = c.in(LayerNormIn::kWeight);
  Inputs grad{};
  if (c.wants(LayerNormIn::kX))
    grad[LayerNormIn::kX] = c.make(op::kLayerNormBackX, {c.dy(), x, weight}, attr);
  if (c.wants(LayerNormIn::kWeight))
    grad[LayerNormIn::kWeight] = c.make(op::kLayerNormBackW, {c.dy(), x, weight}, attr);
  if (c.wants(LayerNormIn::kBias))
    grad[LayerNormIn::kBias] = c.make(op::kBiasBack, {c.dy(), c.in(LayerNormIn::kBias)});
  return grad;
}

Tangents layer_norm_jvp(const JvpContext& c) {
  return c.make(op::kLayerNormTangent,
                {c.in(LayerNormIn::kX), c.in(LayerNormIn::kWeight), c.t(LayerNormIn::kX),
                 c.t(LayerNormIn::kWeight), c.t(LayerNormIn::kBias)},
                c.node().attr);
}

// The Jacobian (I - y y^T) / |x| is symmetric.
Inputs l2_norm_vjp(const VjpContext& c) {
  return inputs({c.make(op::kL2NormBack, {c.dy(), c.in(UnaryIn::kX)}, c.node().attr)});
}
Tangents l2_norm_jvp(const JvpContext& c) {
  return c.make(op::kL2NormBack, {c.t(UnaryIn::kX), c.in(UnaryIn::kX)}, c.node().attr);
}

constexpr DiffDef kRules[] = {
    {op::kRmsNorm, rms_norm_vjp, rms_norm_jvp},
    {op::kLayerNorm, layer_norm_vjp, layer_norm_jvp},
    {op::kL2Norm, l2_norm_vjp, l2_norm_jvp},
};

}  // namespace

DiffTable norm_rules() { return kRules; }

}  // namespace veery

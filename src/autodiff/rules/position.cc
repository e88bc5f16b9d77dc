#include "autodiff/rule.h"

namespace veery {
namespace {

// A rotation is orthogonal, so its transpose rotates back.
Inputs rope_vjp(const VjpContext& c) {
  auto attr = c.node().as<RopeAttr>();
  Inputs grad{};
  if (c.wants(RopeIn::kAngles))
    grad[RopeIn::kAngles] = c.make(op::kRopeBackAngles, {c.dy(), c.in(RopeIn::kX)}, attr);
  attr.sign = -attr.sign;
  if (c.wants(RopeIn::kX))
    grad[RopeIn::kX] = c.make(op::kRope, {c.dy(), c.in(RopeIn::kAngles)}, attr);
  return grad;
}
Tangents rope_jvp(const JvpContext& c) {
  const Value x = c.t(RopeIn::kX), angles = c.t(RopeIn::kAngles);
  const Attr attr = c.node().attr;
  return c.sum(x ? c.make(op::kRope, {x, c.in(RopeIn::kAngles)}, attr) : kNoValue,
               angles ? c.make(op::kRopeTangent, {c.in(RopeIn::kX), angles}, attr) : kNoValue);
}

// Positions are constants, divisors are weights.
Inputs rope_angles_vjp(const VjpContext& c) {
  const NodeId back =
      c.graph.add(op::kRopeAnglesBack,
                  inputs({Value(c.y), c.in(RopeAnglesIn::kPositions), c.in(RopeAnglesIn::kDivisors),
                          c.in(RopeAnglesIn::kExtended), c.in(RopeAnglesIn::kIsExtended), c.dy()}),
                  c.node().attr);
  Inputs grad{};
  grad[RopeAnglesIn::kDivisors] = {back, 0};
  if (c.in(RopeAnglesIn::kExtended)) grad[RopeAnglesIn::kExtended] = {back, 1};
  return grad;
}
Tangents rope_angles_jvp(const JvpContext& c) {
  return c.make(op::kRopeAnglesTangent,
                {Value(c.y), c.in(RopeAnglesIn::kPositions), c.in(RopeAnglesIn::kDivisors),
                 c.in(RopeAnglesIn::kExtended), c.in(RopeAnglesIn::kIsExtended),
                 c.t(RopeAnglesIn::kDivisors), c.t(RopeAnglesIn::kExtended)},
                c.node().attr);
}

// The factors are constants.
Inputs position_scale_vjp(const VjpContext& c) {
  return inputs(
      {c.make(op::kPositionScale, {c.dy(), c.in(PositionScaleIn::kPositions)}, c.node().attr)});
}
Tangents position_scale_jvp(const JvpContext& c) {
  return c.make(op::kPositionScale, {c.t(PositionScaleIn::kX), c.in(PositionScaleIn::kPositions)},
                c.node().attr);
}

constexpr DiffDef kRules[] = {
    {op::kRope, rope_vjp, rope_jvp},
    {op::kPositionScale, position_scale_vjp, position_scale_jvp},
    {op::kRopeAngles, rope_angles_vjp, rope_angles_jvp},
};

}  // namespace

DiffTable position_rules() { return kRules; }

}  // namespace veery

#include "autodiff/rule.h"

namespace veery {
namespace {

// A rotation is orthogonal, so its transpose rotates back.
Inputs rope_vjp(const VjpContext& c) {
  auto attr = c.node().as<RopeAttr>();
  attr.sign = -attr.sign;
  return inputs({c.make(op::kRope, {c.dy(), c.in(RopeIn::kAngles)}, attr)});
}
Value rope_jvp(const JvpContext& c) {
  return c.make(op::kRope, {c.t(RopeIn::kX), c.in(RopeIn::kAngles)}, c.node().attr);
}

// The factors are constants.
Inputs position_scale_vjp(const VjpContext& c) {
  return inputs(
      {c.make(op::kPositionScale, {c.dy(), c.in(PositionScaleIn::kPositions)}, c.node().attr)});
}
Value position_scale_jvp(const JvpContext& c) {
  return c.make(op::kPositionScale, {c.t(PositionScaleIn::kX), c.in(PositionScaleIn::kPositions)},
                c.node().attr);
}

constexpr DiffDef kRules[] = {
    {op::kRope, rope_vjp, rope_jvp},
    {op::kPositionScale, position_scale_vjp, position_scale_jvp},
    {.op = op::kRopeAngles,
     .no_vjp = "positions are whole numbers",
     .no_jvp = "positions are whole numbers"},
};

}  // namespace

DiffTable position_rules() { return kRules; }

}  // namespace veery

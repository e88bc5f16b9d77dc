#include "autodiff/rule.h"

namespace veery {
namespace {

// The selection of experts is constant, and the bias has no other effect.
Inputs route_vjp(const VjpContext& c) {
  Inputs grad{};
  if (c.wants(RouteIn::kScores))
    grad[RouteIn::kScores] = c.make(
        op::kRouteBack, {c.in(RouteIn::kScores), c.in(RouteIn::kBias), c.dy()}, c.node().attr);
  if (c.wants(RouteIn::kBias))
    grad[RouteIn::kBias] = c.make(op::kScale, {c.in(RouteIn::kBias)}, ScaleAttr{0});
  return grad;
}
Tangents route_jvp(const JvpContext& c) {
  const Value scores = c.in(RouteIn::kScores), moved = c.t(RouteIn::kScores);
  return moved ? c.make(op::kRouteTangent, {scores, c.in(RouteIn::kBias), moved}, c.node().attr)
               : c.make(op::kScale, {scores}, ScaleAttr{0});
}

Inputs moe_vjp(const VjpContext& c) {
  Inputs in{};
  in[MoeBackIn::kDy] = c.dy();
  in[MoeBackIn::kX] = c.in(MoeIn::kX);
  in[MoeBackIn::kGates] = c.in(MoeIn::kGates);
  for (int i = MoeIn::kGate; i <= MoeIn::kDownBias; ++i) in[static_cast<size_t>(i)] = c.in(i);
  Inputs grad{};
  const auto add = [&](Op op, std::initializer_list<int> of) {
    if (std::none_of(of.begin(), of.end(), [&](int i) { return c.wants(i); })) return;
    const NodeId back = c.graph.add(op, in, c.node().attr);
    int output = 0;
    for (const int i : of) {
      if (c.in(i)) grad[static_cast<size_t>(i)] = {back, output};
      ++output;
    }
  };
  add(op::kMoeBack, {MoeIn::kX, MoeIn::kGates});
  add(op::kMoeBackW, {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown});
  add(op::kMoeBackBias, {MoeIn::kGateBias, MoeIn::kUpBias, MoeIn::kDownBias});
  if (c.wants(MoeIn::kResidual)) grad[MoeIn::kResidual] = c.dy();
  return grad;
}

// One Jacobian product for each input with a tangent.
Tangents moe_jvp(const JvpContext& c) {
  Value sum = c.t(MoeIn::kResidual);
  for (int i = 0; i <= MoeIn::kDownBias; ++i) {
    if (!c.t(i) || i == MoeIn::kResidual) continue;
    Inputs in = c.node().in;
    in[MoeTangentIn::kTangent] = c.t(i);
    sum = c.sum(sum, c.graph.add(op::kMoeTangent, in, MoeTangentAttr{c.node().as<MoeAttr>(), i}));
  }
  return sum;
}

constexpr DiffDef kRules[] = {
    {op::kRoute, route_vjp, route_jvp},
    {op::kMoe, moe_vjp, moe_jvp},
};

}  // namespace

DiffTable expert_rules() { return kRules; }

}  // namespace veery

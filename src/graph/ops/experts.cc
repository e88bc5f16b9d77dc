#include "graph/ops/experts.h"

#include <cmath>

namespace veery::op::detail {
namespace {

// The type of an input, or that of the zero that stands for the gradient of an absent one.
ValueType like(const OpContext& c, int input) {
  return c.has(input) ? c.type(input) : ValueType{Shape{1, 1}};
}

// A run reads the weights of experts that any row selected, assuming equal probabilities. The
// weights have the same indices in all ops.
Cost cost_of(const OpContext& c, const MoeAttr& attr, const Shape& x, const RunSize& size) {
  const double part = 1.0 * attr.used / attr.experts;
  const double rows = size(x.rows());
  const double weights = (c.has(MoeIn::kGate) ? 2 : 1) * size.elements(c.shape(MoeIn::kUp)) +
                         size.elements(c.shape(MoeIn::kDown));
  return {.flops = 2 * rows * weights * part, .weight_share = 1 - std::pow(1 - part, rows)};
}
Cost times(Cost cost, double factor) {
  cost.flops *= factor;
  return cost;
}

}  // namespace

Outputs route(const OpContext& c) {
  const auto& attr = c.attr<RouteAttr>();
  const Shape& scores = c.shape(RouteIn::kScores);
  const int64_t experts = scores.cols();
  if (c.has(RouteIn::kBias))
    c.require(c.shape(RouteIn::kBias) == Shape{1, experts}, "there must be one bias an expert");
  c.require(attr.used >= 1 && attr.used <= experts, "more experts are used than there are");
  c.require(attr.groups >= 1 && experts % attr.groups == 0 && attr.groups_used >= 1 &&
                attr.groups_used <= attr.groups &&
                attr.groups_used * (experts / attr.groups) >= attr.used,
            "the groups of experts must be equal and hold those that are used");
  c.require(attr.group_best >= 1 && attr.group_best <= experts / attr.groups,
            "a group is scored by more experts than it has");
  return scores;
}

// Both derivatives have their last input in the same place.
Outputs route_derivative(const OpContext& c) {
  c.same_shape(RouteBackIn::kScores, RouteBackIn::kDgates);
  return route(c);
}

Outputs moe_back(const OpContext& c) {
  c.attr<MoeAttr>();
  return {like(c, MoeBackIn::kX), like(c, MoeBackIn::kGates)};
}
Outputs moe_back_w(const OpContext& c) {
  c.attr<MoeAttr>();
  return {like(c, MoeBackIn::kGate), like(c, MoeBackIn::kUp), like(c, MoeBackIn::kDown)};
}
Outputs moe_back_bias(const OpContext& c) {
  c.attr<MoeAttr>();
  return {like(c, MoeBackIn::kGateBias), like(c, MoeBackIn::kUpBias),
          like(c, MoeBackIn::kDownBias)};
}

Outputs moe_tangent(const OpContext& c) {
  const auto& attr = c.attr<MoeTangentAttr>();
  c.require(attr.moves >= 0 && attr.moves <= MoeIn::kDownBias && attr.moves != MoeIn::kResidual &&
                c.has(attr.moves),
            "what moves must be one of the inputs");
  c.same_shape(attr.moves, MoeTangentIn::kTangent);
  return Shape{c.shape(MoeTangentIn::kX).rows(), c.shape(MoeTangentIn::kDown)[1]};
}

Outputs moe(const OpContext& c) {
  const auto& attr = c.attr<MoeAttr>();
  const Shape& x = c.shape(MoeIn::kX);
  const int64_t experts = attr.experts;
  c.require(experts >= 1 && attr.used >= 1 && attr.used <= experts,
            "more experts are used than there are");
  c.require(c.shape(MoeIn::kGates) == Shape{x.rows(), experts},
            "there must be one gate a row and expert");
  const Shape& up = c.shape(MoeIn::kUp);
  c.require(c.has(MoeIn::kGate) ? c.shape(MoeIn::kGate) == up
                                : !c.has(MoeIn::kGateBias) && attr.limit == 0,
            "gate must have the shape of up, and a bias or limit of the gate needs a gate");
  c.require(up.rank == 3 && up[0] == Dim(experts) && up.cols() == x.cols(),
            "up must be [experts, hidden, in]");
  const Shape& down = c.shape(MoeIn::kDown);
  c.require(down.rank == 3 && down[0] == Dim(experts) && Dim(down.cols()) == up[1],
            "down must be [experts, out, hidden]");
  for (int i : {MoeIn::kGateBias, MoeIn::kUpBias})
    if (c.has(i))
      c.require(c.shape(i) == Shape{1, up.rows()}, "a bias must be [1, experts x hidden]");
  if (c.has(MoeIn::kDownBias))
    c.require(c.shape(MoeIn::kDownBias) == Shape{1, down.rows()},
              "a bias must be [1, experts x out]");
  const Shape out{x.rows(), down[1]};
  if (c.has(MoeIn::kResidual))
    c.require(c.shape(MoeIn::kResidual) == out, "the residual must have the shape of the result");
  return out;
}

Cost moe_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return cost_of(c, c.attr<MoeAttr>(), c.shape(MoeIn::kX), size);
}
// The forward pass, and as many products for the gradients of hidden values and of the results.
Cost moe_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return times(cost_of(c, c.attr<MoeAttr>(), c.shape(MoeBackIn::kX), size), 3);
}
Cost moe_tangent_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return times(cost_of(c, c.attr<MoeTangentAttr>().moe, c.shape(MoeTangentIn::kX), size), 2);
}

}  // namespace veery::op::detail

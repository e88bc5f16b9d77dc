#include "graph/ops/experts.h"

#include <cmath>

namespace veery::op::detail {

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

// A run reads the weights of experts that any row selected, assuming equal probabilities.
Cost moe_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const auto& attr = c.attr<MoeAttr>();
  const double part = 1.0 * attr.used / attr.experts;
  const double rows = size(c.shape(MoeIn::kX).rows());
  const double weights = (c.has(MoeIn::kGate) ? 2 : 1) * size.elements(c.shape(MoeIn::kUp)) +
                         size.elements(c.shape(MoeIn::kDown));
  return {.flops = 2 * rows * weights * part, .weight_share = 1 - std::pow(1 - part, rows)};
}

}  // namespace veery::op::detail

#include "array/array.h"
#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs cross_entropy_vjp(const VjpContext& c) {
  return inputs({c.make(op::kCrossEntropyBack,
                        {c.dy(), c.in(CrossEntropyIn::kLogits), c.in(CrossEntropyIn::kTargets)})});
}
// The sum of the gradient times the tangent, over all logits.
Tangents cross_entropy_jvp(const JvpContext& c) {
  const Value one = constant(c.graph, {1, 1}, 1).value();
  const Value gradient = c.make(
      op::kCrossEntropyBack, {one, c.in(CrossEntropyIn::kLogits), c.in(CrossEntropyIn::kTargets)});
  return c.make(op::kSumTo, {c.make(op::kMul, {gradient, c.t(CrossEntropyIn::kLogits)}), one});
}

constexpr DiffDef kRules[] = {{op::kCrossEntropy, cross_entropy_vjp, cross_entropy_jvp}};

}  // namespace

DiffTable loss_rules() { return kRules; }

}  // namespace veery

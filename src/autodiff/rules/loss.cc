#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs cross_entropy_vjp(const VjpContext& c) {
  return inputs({c.make(op::kCrossEntropyBack,
                        {c.dy(), c.in(CrossEntropyIn::kLogits), c.in(CrossEntropyIn::kTargets)})});
}

constexpr DiffDef kRules[] = {
    {.op = op::kCrossEntropy, .vjp = cross_entropy_vjp, .no_jvp = "no op sums over rows"},
};

}  // namespace

DiffTable loss_rules() { return kRules; }

}  // namespace veery

#include "autodiff/rule.h"

namespace veery {
namespace {

constexpr DiffDef kRules[] = {
    {.op = op::kScan,
     .no_vjp = "there is no kernel for gradients of recurrences",
     .no_jvp = "there is no kernel for tangents of recurrences"},
    {.op = op::kConv1d,
     .no_vjp = "there is no kernel for gradients of recurrences",
     .no_jvp = "there is no kernel for tangents of recurrences"},
};

}  // namespace

DiffTable recurrence_rules() { return kRules; }

}  // namespace veery

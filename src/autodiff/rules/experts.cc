#include "autodiff/rule.h"

namespace veery {
namespace {

constexpr std::string_view kNoKernel = "there is no kernel for gradients through experts";

constexpr DiffDef kRules[] = {
    {.op = op::kRoute, .no_vjp = kNoKernel, .no_jvp = kNoKernel},
    {.op = op::kMoe, .no_vjp = kNoKernel, .no_jvp = kNoKernel},
};

}  // namespace

DiffTable expert_rules() { return kRules; }

}  // namespace veery

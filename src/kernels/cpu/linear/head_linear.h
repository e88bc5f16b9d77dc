// head_linear.h: linears with one packed matrix per head.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// Returns the kernel for kHeadLinear with a weight in panels, or a kernel without phases if it
/// does not support the operands. The accumulation order is that of linear.h.
Kernel head_linear_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

}  // namespace veery

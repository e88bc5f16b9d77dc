// head_linear.h: products of each head with a matrix of its own, in panels.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// The kernel for kHeadLinear where the weight is in panels; no phases if there is none for these
/// operands. Products are those of linear.h.
Kernel head_linear_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

}  // namespace veery

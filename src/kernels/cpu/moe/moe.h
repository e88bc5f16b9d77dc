// moe.h: mixtures of experts with weights in panels.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// The kernel for kMoe where every weight is in panels; no phases if there is none for these
/// operands. Rows are sorted by expert; an expert's panels are read once for all of its rows (in
/// blocks that stay in the second level cache), and not at all if it has none.
///
/// One answer: gate and up of a row and an expert are products as linear.h has them, + bias. h is
/// made of them in f32 and is the row of the product with down, + bias. The result starts at 0 and
/// takes y = fma(gate, product, y) over the experts in order, then the residual is added.
Kernel moe_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

}  // namespace veery

// moe.h: mixtures of experts with packed weights.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// Returns the kernel for kMoe if every weight is in panels, or a kernel without phases if it does
/// not support the operands.
///
/// Algorithm: quantise each token row once; sort pairs of row and expert by expert; gather the rows
/// of an expert into groups (in blocks that fit the L2 cache) and multiply them with its gate and
/// up panels; quantise h; multiply it with the down panels and add the products to the output rows.
/// The panels of an expert are read once for all of its rows, and not at all without rows.
///
/// Accumulation order: gate and up of a row and an expert are products as in linear.h, + bias. h is
/// computed from them in f32 and is the input of the product with down, + bias. The output starts
/// at 0 and accumulates y = fma(gate, product, y) over the experts in ascending order; then the
/// residual connection is added.
Kernel moe_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

}  // namespace veery

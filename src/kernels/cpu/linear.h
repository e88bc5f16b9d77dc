// linear.h: matrix products with weights in panels.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// The kernel for kLinear or kLinearArgmax where every weight is in panels; no phases if there is
/// none for these operands.
///
/// One answer: an output has the same bits whatever the instruction set, the number of rows, the
/// workers and the place of the row. With qa the int8 activations (scale sa for 32 columns: largest
/// magnitude / 127, to nearest even; with K types for 256 columns, and doubled 0 to 3 times for
/// each 32 of them, as often as their own largest magnitude needs) and b the blocks in order, all
/// in f32:
///   blocks of 32   (Q4_0 to Q8_0, IQ4_NL, MXFP4; d of MXFP4 is half its scale)
///                  D = fma(d sa, float(sum qw qa), D), M = fma(m, sa float(sum qa), M), y = D + M
///                  where a block is over 2.5 times larger than the mean of its row's blocks, what
///                  its qa leave over is quantised again, in steps of sa / 254: after all blocks D
///                  = fma(d sa / 254, float(sum qw qrest), D), and sa / 254 float(sum qrest) is
///                  added to the second factor of M
///                  NVFP4 has a scale for each half of a block: D = fma of the first half, then of
///                  the second; after all blocks the residual of each outlier block likewise
///                  groups of codes (dtype/affine.h): the same over their blocks of 32, d and m
///                  being the scale and the bias of the group
///   K types        t = sum scale (sum qw qa), z = sum min (sum qa) over the sub-blocks, integers;
///                  D = fma(d sa, float(t), D), M = fma(dmin sa, float(z), M), y = D - M
///                  IQ, TQ and Q8_K: the same without minima; qw are the values of the code book, d
///                  includes its factor (dtype/code_books.h), scale is 1 where there is none
///   BF16           xb = x rounded to bf16; y = fma(xb[k], w[k], y), k = 1, 0, 3, 2, ..: the odd
///                  column of a pair first, and subnormal numbers count as 0, as VDPBF16PS has it
///   F32, F16, MXFP8, FP8, and all types with choice.exact (decoded as dtype/decode.h):
///                  y = fma(x[k], w[k], y), k in order
/// With Precision::kHigh no block of x is an outlier, and what all its qa leave over, fma(-sa,
/// qa, x), is a second row that is quantised and multiplied likewise: y is the sum of both rows'
/// (not with choice.exact, nor with weights of floats). Then y + bias, the gate's activation, +
/// residual.
Kernel linear_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

}  // namespace veery

// linear.h: linears (GEMV, skinny GEMM, GEMM) with packed weights.
//
// Overview, in the terms of BLIS: weights are the packed A, token rows the packed B.
//   packing       at load time, weights become panels of 16 output rows, so that the SIMD lanes
//                 are outputs (panels/panels.h)
//   activations   each dispatch applies the RMS norm and quantises the token rows into interleaved
//                 groups of up to 8 (activations/activations.h)
//   microkernel   one or more panels times one group: 16 outputs x up to 8 rows stay in registers
//                 while all columns are accumulated sequentially (codec/panel_kernels.h); AMX tiles
//                 replace it for many rows (tiles/amx_linear.h)
//   loops         over panels, blocks of rows and columns for L1 and L2 (linear/multiply.cc)
//   epilogue      bias, activation, gate, scale, residual connection (linear/epilogue.h)
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// Returns the kernel for kLinear or kLinearArgmax if every weight is in panels, or a kernel
/// without phases if it does not support the operands.
///
/// Accumulation order. An output has the same bits for every instruction set, number of rows,
/// number of workers and position of the row in its batch. qa are the int8 activations. Their scale
/// sa is the largest magnitude of 32 columns divided by 127, rounding to nearest even. K types have
/// one scale for 256 columns: an eighth of their largest magnitude / 127. Each 32 of them double it
/// 0 to 3 times, as often as their own largest magnitude requires. Blocks are accumulated in
/// ascending order, in f32:
///   blocks of 32   (Q4_0 to Q8_0, IQ4_NL, MXFP4; d of MXFP4 is half its scale)
///                  D = fma(d sa, float(sum qw qa), D), M = fma(m, sa float(sum qa), M), y = D + M
///                  Outlier blocks (largest magnitude over 2.5 times the mean of the row's blocks):
///                  the quantisation error is quantised again, in steps of sa / 254, to qr. After
///                  all blocks D = fma(d sa / 254, float(sum qw qr), D); sa / 254 float(sum qr) is
///                  added to the second factor of M.
///                  NVFP4 has a scale for each half of a block: D = fma of the first half, then of
///                  the second; after all blocks, likewise for the residual of outlier blocks.
///                  Affine groups (dtype/affine.h): the same over their blocks of 32; d and m are
///                  the scale and the bias of the group.
///   K types        t = sum scale (sum qw qa), z = sum min (sum qa) over the sub-blocks, integers;
///                  D = fma(d sa, float(t), D), M = fma(dmin sa, float(z), M), y = D - M
///                  IQ, TQ and Q8_K: the same without minima; qw are values of the code book, d
///                  includes its factor (dtype/code_books.h); types without sub-scales have scale 1
///   BF16           xb = x rounded to bf16; y = fma(xb[k], w[k], y), k = 1, 0, 3, 2, ..: the odd
///                  column of a pair first, subnormal numbers count as 0, as VDPBF16PS defines
///   F32, F16, MXFP8, FP8, and all types with choice.exact (decoded as dtype/decode.h):
///                  y = fma(x[k], w[k], y), k ascending
/// Precision::kHigh (residual quantisation): there are no outlier blocks; instead the quantisation
/// error of the whole row, fma(-sa, qa, x), is quantised and multiplied as a second row, and y is
/// the sum of both. It has no effect with choice.exact or floating-point weights.
/// Then the epilogue: y + bias, activation or gate, * scale, + residual.
Kernel linear_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

}  // namespace veery

// amx_linear.h: linears with many rows (GEMM) on AMX tiles. Accumulation order: linear.h.
//
//   packing      the panels of linear.h
//   activations  groups of 16 token rows, quantised into tiles of int8 or bf16 (amx_rows.h)
//   expansion    chunks of packed panels become tiles in the L1 cache (amx_panels-inl.h)
//   microkernel  2 panels x 2 groups of tiles; blocks are added sequentially in f32, as on vectors
//                (amx_multiply-inl.h); a software pipeline for one group (amx_few-inl.h)
//   epilogue     linear/epilogue.h
#pragma once
#include "kernels/cpu/linear/product.h"

namespace veery {

/// Returns the phases of the tile kernel, or null if the target has no tiles, a weight type has no
/// tile kernel, or choice.exact. If a run has only few rows, these phases call those of
/// kAvx512Vnni, with the same memory.
const LinearPhases* amx_phases(const Dispatch& dispatch, const KernelChoice& choice);

/// Return the bytes of the quantised activations, and of Worker::scratch.
int64_t amx_activation_bytes(const Product& product);
int64_t amx_scratch_bytes(const Product& product);

}  // namespace veery

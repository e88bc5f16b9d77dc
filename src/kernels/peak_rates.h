// peak_rates.h: loops that measure the peak rates of a core.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// These loops run on the calling thread with the vectors and instructions of kernels for `target`,
/// on operands in registers and the L1 cache. They return the number of operations; a multiply-add
/// counts as two.
double fma_loop(Target target, int64_t turns);   ///< f32
double bf16_loop(Target target, int64_t turns);  ///< as fma_loop() if there is no bf16 instruction
/// int8, on the 32-column tiles of the kernels if `target` has tiles.
double dot4_loop(Target target, int64_t turns);

/// Reads `bytes` bytes sequentially in vectors of `target`. The result depends on all bytes, so
/// that the compiler cannot drop the loop.
uint64_t read_loop(Target target, const std::byte* data, size_t bytes);

}  // namespace veery

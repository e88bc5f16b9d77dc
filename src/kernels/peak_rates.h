// peak_rates.h: loops of one kind of work, which measure the peak rates of a core.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// They run on the calling thread, with the vectors and instructions that kernels for `target` use,
/// on operands in registers and the first level cache. Return the operations done: a multiply-add
/// is two.
double fma_loop(Target target, int64_t turns);   ///< f32
double bf16_loop(Target target, int64_t turns);  ///< the same where bf16 has no instruction
/// int8: on tiles of 32 columns, as kernels take them, where `target` has them.
double dot4_loop(Target target, int64_t turns);

/// Reads `bytes` bytes from the start to the end, in vectors of `target`. The result depends on all
/// of them.
uint64_t read_loop(Target target, const std::byte* data, size_t bytes);

}  // namespace veery

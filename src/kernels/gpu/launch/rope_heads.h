// rope_heads.h: rotary position embeddings of data in the memory of a machine.
#pragma once
#include "kernels/common/tensor_rope.h"
#include "kernels/gpu/machine/machine.h"

namespace veery::gpu {

/// Computes veery::rope() with the same bits. Data and positions are in the machine's memory; all
/// axes of positions are in one block of it. Throws kUnsupported for types other than f32 and bf16.
void rope(const RopeProblem& problem, const RopeTable& table, Machine& machine);

}  // namespace veery::gpu

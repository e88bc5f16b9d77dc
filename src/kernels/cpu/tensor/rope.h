// rope.h: rotary position embeddings on the CPU.
#pragma once
#include "base/thread_pool.h"
#include "kernels/common/tensor_rope.h"
#include "kernels/kernels.h"

namespace veery {

/// Computes reference_rope() with sin and cos of its own, whose errors are below 1e-15. The bits of
/// a result are the same for all targets and any number of workers.
void rope(const RopeProblem& problem, const RopeTable& table, Target target, ThreadPool& pool);

}  // namespace veery

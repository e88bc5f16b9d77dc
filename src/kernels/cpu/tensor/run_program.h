// run_program.h: element programs on the CPU.
#pragma once
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tensor/element_program.h"

namespace veery {

/// Runs a program on all workers of the pool, tile by tile, so that intermediate results stay in
/// the caches. Results do not depend on the number of workers.
void run_program(const ElementProgram& program, Target target, ThreadPool& pool);

}  // namespace veery

// cpu_backend.h: the CPU as a backend.
#pragma once
#include <memory>

#include "base/thread_pool.h"
#include "kernels/backend.h"

namespace veery {

/// Kernels of `target`, run by all threads of `pool`, which must outlive it: each walks through the
/// table and waits for the others after every kernel.
std::unique_ptr<Backend> make_cpu_backend(ThreadPool& pool, Target target);

}  // namespace veery

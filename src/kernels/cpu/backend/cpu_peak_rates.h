// cpu_peak_rates.h: measured peak rates of all threads of a pool.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "kernels/backend.h"

namespace veery {

/// Measures the peak rates once, in a few milliseconds. `weights`: the memory that the loop for
/// memory bandwidth reads.
PeakRates measure_cpu_peak_rates(ThreadPool& pool, Target target,
                                 std::span<const MemoryPiece> weights);

}  // namespace veery

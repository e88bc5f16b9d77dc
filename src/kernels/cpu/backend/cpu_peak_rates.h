// cpu_peak_rates.h: measured peak rates of all threads of a pool.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "kernels/backend.h"

namespace veery {

/// One measurement, of a few milliseconds. `weights`: what the loop that measures memory reads.
PeakRates measure_cpu_peak_rates(ThreadPool& pool, Target target,
                                 std::span<const MemoryPiece> weights);

}  // namespace veery

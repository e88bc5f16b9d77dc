// peak_rates.h: measures the peak rates of a machine.
#pragma once
#include "kernels/gpu/gpu.h"

namespace veery::gpu {

/// Backend::peak_rates() of a machine that times the parts of a recording.
PeakRates measure_peak_rates(Machine& machine, std::span<const MemoryPiece> weights);

}  // namespace veery::gpu

// limits.h: what a machine does at best.
#pragma once
#include "kernels/gpu/gpu.h"

namespace veery::gpu {

/// Backend::limits() of a machine that times parts.
DeviceLimits measure_limits(Machine& machine, std::span<const MemoryPiece> weights);

}  // namespace veery::gpu

// machine.h: a GPU as a driver gives access to it.
#pragma once
#include <memory>
#include <span>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/driver.h"
#include "kernels/gpu/gpu.h"

namespace veery::cuda {

/// GPU `index`, with kernels of `image`. Throws kUnsupported for one that is too old, kIo where the
/// driver fails. The driver must outlive it.
std::unique_ptr<gpu::Machine> make_machine(const Driver& driver, std::span<const std::byte> image,
                                           int index, Steps steps = Steps::kGraph);

}  // namespace veery::cuda

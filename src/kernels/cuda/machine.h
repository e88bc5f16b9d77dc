// machine.h: gpu::Machine for NVIDIA GPUs.
#pragma once
#include <memory>
#include <span>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/gpu/gpu.h"

namespace veery::cuda {

/// Returns GPU `index` with the kernels of `image`. With a `library`, it is relaxed
/// (gpu::Machine::relaxed()). Throws kUnsupported if the GPU is too old, kIo if the driver fails.
/// `driver` and `library` must outlive the result.
std::unique_ptr<gpu::Machine> make_machine(const Driver& driver, std::span<const std::byte> image,
                                           int index, const CublasLt* library = nullptr);

}  // namespace veery::cuda

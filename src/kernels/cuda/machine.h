// machine.h: a GPU as a driver gives access to it.
#pragma once
#include <memory>
#include <span>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/gpu/gpu.h"

namespace veery::cuda {

/// GPU `index`, with kernels of `image`. Throws kUnsupported for one that is too old, kIo where the
/// driver fails. The driver must outlive it, and so must the library that makes it a relaxed one
/// (gpu::Machine::relaxed()); nullptr: none.
std::unique_ptr<gpu::Machine> make_machine(const Driver& driver, std::span<const std::byte> image,
                                           int index, const CublasLt* library = nullptr);

}  // namespace veery::cuda

// image.h: the compiled kernels for NVIDIA GPUs, embedded in the program.
#pragma once
#include <cstddef>
#include <span>

namespace veery::cuda {

/// Returns the fat binary of kernels/gpu/kernels.cu; empty if built without VEERY_CUDA.
std::span<const std::byte> kernel_image();

}  // namespace veery::cuda

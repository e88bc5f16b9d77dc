// image.h: the kernels for NVIDIA GPUs that this build has.
#pragma once
#include <cstddef>
#include <span>

namespace veery::cuda {

/// What nvcc made of kernels/gpu/kernels.cu; empty in a build without it (CMake: VEERY_CUDA).
std::span<const std::byte> kernel_image();

}  // namespace veery::cuda

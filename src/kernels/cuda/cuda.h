// cuda.h: NVIDIA GPUs.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace veery {

namespace cuda {
/// How a step of one sequence is run: as a graph of launches, or by one cooperative kernel that
/// goes through the table of the step (kernels/gpu/walk), where all of its ops are known to that.
/// The numbers are the same.
enum class Steps { kGraph, kWalk };
}  // namespace cuda

/// Why there is no backend for NVIDIA GPUs here; empty: there is one.
std::string cuda_refusal();
/// That of GPU `index`. Throws kUnsupported with the reason where there is none, kInput naming the
/// number of GPUs where there are fewer. kWalk wants compute capability 9.0. `relaxed`: prompts by
/// kernels and a library whose bits are not those of the CPU (docs/gpu.md); kUnsupported, naming
/// what was looked for, where that library is not there.
std::shared_ptr<Backend> make_cuda_backend(int index, cuda::Steps steps, bool relaxed = false);

}  // namespace veery

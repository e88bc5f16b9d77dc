// cuda.h: NVIDIA GPUs.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace veery {

/// Why there is no backend for NVIDIA GPUs here; empty: there is one.
std::string cuda_refusal();
/// That of GPU `index`. Throws kUnsupported with the reason where there is none, kInput naming the
/// number of GPUs where there are fewer. `relaxed`: prompts by kernels and a library whose bits are
/// not those of the CPU (docs/gpu.md); kUnsupported, naming what was looked for, where that library
/// is not there.
std::shared_ptr<Backend> make_cuda_backend(int index, bool relaxed = false);

}  // namespace veery

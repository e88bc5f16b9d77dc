// cuda.h: NVIDIA GPUs.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace veery {

/// Why there is no backend for NVIDIA GPUs here; empty: there is one.
std::string cuda_refusal();
/// That of GPU `index`. Throws kUnsupported with the reason where there is none, kInput naming the
/// number of GPUs where there are fewer.
std::shared_ptr<Backend> make_cuda_backend(int index);

}  // namespace veery

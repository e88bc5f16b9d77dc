// gpu.h: makes the backend of a plan from any machine that runs the kernels.
#pragma once
#include <memory>

#include "kernels/backend.h"
#include "kernels/gpu/machine/machine.h"

namespace veery::gpu {

std::unique_ptr<Backend> make_backend(std::unique_ptr<Machine> machine);

}  // namespace veery::gpu

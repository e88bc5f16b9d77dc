// gpu_machine.h: a GPU in the host's memory, whose threads are fibres.
#pragma once
#include <memory>

#include "kernels/gpu/gpu.h"

namespace veery::gpu {

std::unique_ptr<Machine> make_emulator();
/// Runs one kernel on the emulator.
void emulate(KernelId kernel, const LaunchSize& size, const void* arguments);

}  // namespace veery::gpu

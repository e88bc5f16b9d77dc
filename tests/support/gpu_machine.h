// gpu_machine.h: an emulated GPU in host memory, whose threads are fibres.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/gpu/gpu.h"

namespace veery::gpu {

/// `max_shared`: shared memory per thread block in bytes (Machine::max_shared()). `sm_count`:
/// Machine::sm_count().
std::unique_ptr<Machine> make_emulator(int max_shared = 227 << 10, int sm_count = 2);
/// As make_emulator(), with a library for relaxed products (Machine::relaxed()).
std::unique_ptr<Machine> make_relaxed_emulator();
/// Computes a product with each sum in double.
void multiply_on_host(const MatrixProduct& product);
/// Runs one kernel on the emulator.
void emulate(KernelId kernel, const LaunchSize& size, const void* arguments);

/// While it exists, some warps of each thread block that this thread emulates run only when all
/// other warps wait. A GPU may run warps at any relative speed. `warps`: one bit per warp.
class HeldWarps {
 public:
  explicit HeldWarps(uint32_t warps);
  HeldWarps(const HeldWarps&) = delete;
  HeldWarps& operator=(const HeldWarps&) = delete;
  ~HeldWarps();
};

}  // namespace veery::gpu

// element_runner.h: runs element programs and their reductions on a machine.
#pragma once
#include "kernels/gpu/machine/machine.h"
#include "kernels/gpu/tensor/element_steps.h"

namespace veery::gpu {

template <typename Params>
void enqueue(Machine& machine, KernelId kernel, const LaunchSize& size, const Params& params) {
  static_assert(sizeof(Params) <= 4096);  // the parameters of a kernel on CUDA
  machine.enqueue(kernel, size, std::as_bytes(std::span(&params, 1)));
}

/// Memory for the duration of the launches that are enqueued meanwhile: released memory is reused
/// by later launches only.
class QueueMemory {
 public:
  QueueMemory(Machine& machine, size_t bytes);
  QueueMemory(const QueueMemory&) = delete;
  QueueMemory& operator=(const QueueMemory&) = delete;
  ~QueueMemory();
  std::byte* data() const { return data_; }

 private:
  Machine& machine_;
  std::byte* data_;
};

/// Enqueues a program. Returns false if it is too long.
bool run_elements(Machine& machine, const ElementProgram& program);

}  // namespace veery::gpu

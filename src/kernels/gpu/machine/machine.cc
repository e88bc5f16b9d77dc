#include "kernels/gpu/machine/machine.h"

#include "base/error.h"

namespace veery::gpu {
namespace {

[[noreturn]] void refuse(const Machine& machine) {
  throw Error(ErrorKind::kUnsupported, "{}: the device has no kernels for tensors", machine.name());
}

}  // namespace

void Machine::enqueue(KernelId, const LaunchSize&, std::span<const std::byte>) { refuse(*this); }
void Machine::enqueue_product(const MatrixProduct&) { refuse(*this); }
void Machine::enqueue_upload(std::byte*, const void*, size_t) { refuse(*this); }
void Machine::wait_for_queue() { refuse(*this); }

std::unique_ptr<Recording> Machine::record_parts(std::vector<Launch>, const Transfers&,
                                                 std::span<const size_t>) {
  throw Error(ErrorKind::kUnsupported, "{}: the device cannot time the steps of a plan", name());
}

std::unique_ptr<Recording> Machine::record_loop(std::vector<Launch>, const Transfers&, uint32_t*) {
  return nullptr;
}

}  // namespace veery::gpu

#include "kernels/gpu/machine/machine.h"

#include "base/error.h"

namespace veery::gpu {

std::unique_ptr<Recording> Machine::record_parts(std::vector<Launch>, const Transfers&,
                                                 std::span<const size_t>) {
  throw Error(ErrorKind::kUnsupported, "{}: the device cannot time the steps of a plan", name());
}

std::unique_ptr<Recording> Machine::record_loop(std::vector<Launch>, const Transfers&, uint32_t*) {
  return nullptr;
}

}  // namespace veery::gpu

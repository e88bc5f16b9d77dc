// machine.h: gpu::Machine for Apple GPUs.
#pragma once
#include <memory>
#include <string_view>

#include "kernels/gpu/gpu.h"
#include "kernels/metal/driver.h"

namespace veery::metal {

/// Measured when the machine is created, so that no list of chips is needed.
struct Profile {
  double bandwidth = 0;  ///< bytes read and written per second with many thread blocks
  double one_block = 0;  ///< the same with one thread block
  int sm_count = 1;      ///< thread blocks that saturate the bandwidth
};

/// Bytes of the buffer that the profile is measured with.
inline constexpr size_t kMeasured = size_t{64} << 20;

/// Returns the GPU of `driver` with the shaders of `source`. Throws kUnsupported if its simdgroups
/// do not have 32 threads or a threadgroup has less memory than a shader needs, kIo if the driver
/// fails.
std::unique_ptr<gpu::Machine> make_machine(std::unique_ptr<Driver> driver, std::string_view source,
                                           size_t measured = kMeasured);

}  // namespace veery::metal

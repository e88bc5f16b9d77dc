// machine.h: an Apple GPU as a driver gives access to it.
#pragma once
#include <memory>
#include <string_view>

#include "kernels/gpu/gpu.h"
#include "kernels/metal/driver.h"

namespace veery::metal {

/// What a GPU was found to do when it was first used: no list of chips is kept.
struct Profile {
  double bandwidth =
      0;  ///< bytes a second, read and written by as many blocks as there is work for
  double one_block = 0;  ///< the same of one block of threads
  int sm_count = 1;      ///< as many blocks as together have the bandwidth
};

/// Bytes that the profile is measured with.
inline constexpr size_t kMeasured = size_t{64} << 20;

/// The GPU of `driver`, with the shaders of `source`. Throws kUnsupported where it has simdgroups
/// of other than 32 threads or less memory a threadgroup than the shaders want, kIo where the
/// driver fails.
std::unique_ptr<gpu::Machine> make_machine(std::unique_ptr<Driver> driver, std::string_view source,
                                           size_t measured = kMeasured);

}  // namespace veery::metal

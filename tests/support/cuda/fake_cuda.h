// fake_cuda.h: a fake NVIDIA driver in host memory, which validates and counts calls and runs
// kernels on the emulator.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace veery::cuda {

struct FakeState {
  int major = 9;             ///< compute capability
  size_t memory = SIZE_MAX;  ///< available bytes
  size_t used = 0;
  int graphs = 0;     ///< existing graphs
  int runs = 0;       ///< graph launches
  int launches = 0;   ///< kernel launches within these graphs
  int early = 0;      ///< kernels recorded with programmatic dependent launch
  int copies = 0;     ///< separate copies between host and device
  int fail_run = -1;  ///< index of the graph launch that fails
  int events = 0;     ///< existing events
  /// Replaces the machine's clock by one that only advances with launches, by 1 ms each.
  bool ticks = false;
};
FakeState& fake_state();
/// Returns the fake driver and resets its state. Without `loops` it behaves like drivers before
/// 12.4.
const Driver& fake_driver(bool loops = true);

/// Returns whether `size` bytes from `at` on are within one block of device memory.
bool is_on_fake(const void* at, size_t size);
/// If a stream is being captured, records a host function in the graph and returns true; otherwise
/// runs it immediately and returns false.
bool in_fake_stream(const std::function<void()>& node);

}  // namespace veery::cuda

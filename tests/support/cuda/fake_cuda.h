// fake_cuda.h: a driver of NVIDIA's in the host's memory, whose kernels the emulator runs: what is
// asked of it is checked and noted.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace veery::cuda {

struct FakeState {
  int major = 9;             ///< compute capability
  size_t memory = SIZE_MAX;  ///< bytes that can be had
  size_t used = 0;
  int graphs = 0;     ///< that exist
  int runs = 0;       ///< of graphs
  int launches = 0;   ///< of kernels, in these runs
  int early = 0;      ///< recorded with leave to begin early
  int copies = 0;     ///< between host and device that were asked for by themselves
  int fail_run = -1;  ///< this run fails
  int events = 0;     ///< that exist
  /// The clock: a launch takes a millisecond, anything else no time; else that of the machine.
  bool ticks = false;
};
FakeState& fake_state();
/// A fresh one: the state is reset. `loops`: drivers before 12.4 have none.
const Driver& fake_driver(bool loops = true);

/// Whether so many bytes are within one block of the device's memory.
bool is_on_fake(const void* at, size_t size);
/// Does something of a library when the graph that is recorded runs, or, false, at once.
bool in_fake_stream(const std::function<void()>& node);

}  // namespace veery::cuda

// fake_metal.h: a GPU of Apple's in the host's memory, whose shaders the emulator runs: what is
// asked of it is checked and noted.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/metal/driver.h"

namespace veery::metal {

struct FakeGpu {
  Limits limits{"Fake", size_t{1} << 30, size_t{1} << 29, 32 << 10, 1024};
  int width = 32;
  size_t used = 0;
  int buffers = 0, encoded = 0;        ///< that exist
  int runs = 0;                        ///< of commands, measuring among them
  int fail_run = -1;                   ///< this run fails
  double command_seconds = 1e-6;       ///< that each command takes, and each run on top of them
  std::vector<std::string> functions;  ///< those that pipelines were asked for
  std::vector<std::string> commands;   ///< functions of what was encoded last, in order
  std::string faults;                  ///< what a GPU would not have done, a line each
};
/// Its state outlives the driver.
std::unique_ptr<Driver> make_fake(FakeGpu& gpu);
/// The backend of the shaders on it.
std::unique_ptr<Backend> make_fake_backend(FakeGpu& gpu);

}  // namespace veery::metal

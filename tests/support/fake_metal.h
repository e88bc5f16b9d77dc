// fake_metal.h: a fake Apple GPU in host memory, which validates and records calls and runs shaders
// on the emulator.
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
  int buffers = 0, encoded = 0;        ///< existing objects
  int runs = 0;                        ///< command buffer runs, including measurements
  int fail_run = -1;                   ///< index of the run that fails
  double command_seconds = 1e-6;       ///< duration of each command, and of each run in addition
  std::vector<std::string> functions;  ///< functions for which pipelines were requested
  std::vector<std::string> commands;   ///< functions of the last encoded commands, in order
  std::string faults;                  ///< calls that a real GPU would reject, one line each
};
/// Creates a driver of `gpu`, which must outlive it.
std::unique_ptr<Driver> make_fake(FakeGpu& gpu);
/// Creates the shader backend on `gpu`.
std::unique_ptr<Backend> make_fake_backend(FakeGpu& gpu);

}  // namespace veery::metal

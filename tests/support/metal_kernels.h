// metal_kernels.h: the shaders of Metal, compiled as C++, for the emulator.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace veery::metal {

struct Shader {
  std::string_view name;
  void (*function)(const void* arguments);  ///< of a thread; for gpu::emulated::run()
  size_t bytes;                             ///< of its arguments, as the text has them
  int threads;                              ///< of a block, at most
};
std::span<const Shader> shaders();

}  // namespace veery::metal

// driver.h: the interface to Metal: shared memory, compute pipelines, and command sequences that
// are encoded once and run repeatedly. metal_driver.mm implements it with Apple's framework.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/gpu/dialect/emulator.h"

namespace veery::metal {

/// Properties of a GPU. Sizes are in bytes.
struct Limits {
  std::string name;
  size_t memory = 0;        ///< recommendedMaxWorkingSetSize
  size_t buffer = 0;        ///< maximum size of a buffer
  size_t block_memory = 0;  ///< maximum memory of a threadgroup
  int block_threads = 0;    ///< maximum threads of a threadgroup
};

/// Memory shared by host and GPU. Its address differs between the two.
struct Buffer {
  void* object = nullptr;
  std::byte* host = nullptr;
  uint64_t address = 0;  ///< on the GPU
  size_t size = 0;
};

/// A compiled compute function.
struct Pipeline {
  void* object = nullptr;
  int width = 0;         ///< threads of a simdgroup
  int most_threads = 0;  ///< maximum threads of a threadgroup
};

/// A kernel launch. Buffer 0 of the function holds its arguments, `offset` bytes into a buffer that
/// all commands share. Threadgroup memory 0 has size.shared bytes, a multiple of 16.
struct Command {
  Pipeline pipeline;
  size_t offset = 0, bytes = 0;  ///< of the arguments
  gpu::LaunchSize size;
  bool waits = true;  ///< a barrier precedes it
};

/// One GPU. All functions throw kIo with the failed action and Metal's error text.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual Limits limits() const = 0;
  /// Returns the bytes of all buffers.
  virtual size_t used() const = 0;

  /// Allocates zeroed memory that stays resident until release(). Returns nullopt if there is not
  /// enough memory.
  virtual std::optional<Buffer> allocate(size_t size) = 0;
  virtual void release(const Buffer& buffer) noexcept = 0;

  /// Compiles shaders, without contraction of operations (MTLMathModeSafe), or loads the library
  /// that was compiled at build time.
  virtual void load(std::string_view source) = 0;
  /// Returns the pipeline of a function of the loaded library, usable in indirect command buffers.
  virtual Pipeline pipeline(const std::string& function) = 0;

  /// Encodes commands, in order, as an indirect command buffer. drop() releases it.
  virtual void* encode(std::span<const Command> commands, const Buffer& arguments) = 0;
  virtual void drop(void* encoded) noexcept = 0;
  /// Runs commands [first, last) and waits for them. Returns the GPU time in seconds.
  virtual double run(void* encoded, size_t first, size_t last) = 0;
};

/// Returns the driver of this machine's GPU, or nullptr with the reason in `why`.
std::unique_ptr<Driver> find_driver(std::string& why);

}  // namespace veery::metal

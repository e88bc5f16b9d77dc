// driver.h: what is asked of Metal: memory that host and GPU share, pipelines, commands that are
// encoded once and run again and again. metal_driver.mm asks Apple's framework.
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

/// What a GPU says of itself.
struct Limits {
  std::string name;
  size_t memory = 0;        ///< bytes that it works well with (recommendedMaxWorkingSetSize)
  size_t buffer = 0;        ///< of the largest buffer
  size_t block_memory = 0;  ///< of a threadgroup
  int block_threads = 0;    ///< of a threadgroup
};

/// Memory that both sides see, at an address of its own on each.
struct Buffer {
  void* object = nullptr;
  std::byte* host = nullptr;
  uint64_t address = 0;  ///< on the GPU
  size_t size = 0;
};

/// A function of the library, ready to run.
struct Pipeline {
  void* object = nullptr;
  int width = 0;         ///< threads of a simdgroup
  int most_threads = 0;  ///< of a threadgroup
};

/// A launch. Buffer 0 of its function are the arguments, `offset` bytes into a buffer that all
/// commands have; threadgroup memory 0 has size.shared bytes, a multiple of 16.
struct Command {
  Pipeline pipeline;
  size_t offset = 0, bytes = 0;  ///< of the arguments
  gpu::LaunchSize size;
  bool waits = true;  ///< for all commands before it
};

/// One GPU. All throw kIo, with what was asked and Metal's own words, where they fail.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual Limits limits() const = 0;
  /// Bytes of all buffers.
  virtual size_t used() const = 0;

  /// Zeroed, resident until it is released; none: there is not enough memory.
  virtual std::optional<Buffer> allocate(size_t size) = 0;
  virtual void release(const Buffer& buffer) noexcept = 0;

  /// Compiles the functions of a text, each operation rounded by itself (MTLMathModeSafe), or takes
  /// what the build has made of them.
  virtual void load(std::string_view source) = 0;
  /// Of a function of the library that is loaded, for indirect commands.
  virtual Pipeline pipeline(const std::string& function) = 0;

  /// Commands in order, as an indirect command buffer.
  virtual void* encode(std::span<const Command> commands, const Buffer& arguments) = 0;
  virtual void drop(void* encoded) noexcept = 0;
  /// Runs commands `first` to `last` - 1 and waits for them; the seconds that the GPU took.
  virtual double run(void* encoded, size_t first, size_t last) = 0;
};

/// That of the GPU of this machine; nullptr: there is none, and `why` says the reason.
std::unique_ptr<Driver> find_driver(std::string& why);

}  // namespace veery::metal

// memory_pool.h: a device's memory with a limit and counters; what is released is kept for what
// comes next.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace veery {

/// kLimit: a device has no memory left for what is wanted, which may pass.
class OutOfDeviceMemory : public Error {
 public:
  template <typename... Args>
  explicit OutOfDeviceMemory(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::kLimit, format, std::forward<Args>(args)...) {}
};

/// Bytes of a device's memory.
struct DeviceMemory {
  size_t active = 0;  ///< in use
  size_t peak = 0;    ///< the most that `active` was since the last reset_peak()
  size_t cached = 0;  ///< released and kept
};

/// Where a pool takes its memory from.
struct MemorySource {
  std::function<std::byte*(size_t size)> allocate;  ///< nullptr: there is none
  std::function<void(std::byte* data)> release;     ///< throws nothing
  std::function<size_t()> free_bytes;               ///< for people
  std::string_view name;                            ///< of the device, for people
};

/// Thread-safe. Blocks are multiples of 256 bytes, from 1 MiB on of 2 MiB; a kept block is taken
/// again where it is at most a quarter larger than what is wanted.
class MemoryPool {
 public:
  explicit MemoryPool(MemorySource source);
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();

  /// `size` bytes or more, whose contents are undefined. Where the device has none left, what is
  /// kept is given back to it first. Throws OutOfDeviceMemory naming what is wanted, in use,
  /// allowed and free.
  std::byte* take(size_t size);
  void give(std::byte* data) noexcept;

  DeviceMemory memory() const;
  /// Bytes that can be taken beside what is in use, as far as the device knows.
  size_t available() const;
  std::string_view name() const { return source_.name; }
  void reset_peak();
  /// The most that is in use and kept together. Less than is in use: nothing more can be taken.
  void set_limit(size_t bytes);
  /// The most that is kept, 0 unless set: a process that loads one model has no use for more.
  void set_cache_limit(size_t bytes);
  void clear_cache();

 private:
  void shrink(size_t most_cached);

  MemorySource source_;
  mutable std::mutex mutex_;
  std::unordered_map<std::byte*, size_t> sizes_;  ///< of blocks in use
  std::multimap<size_t, std::byte*> kept_;        ///< by size
  DeviceMemory memory_;
  size_t limit_ = SIZE_MAX;
  size_t cache_limit_ = 0;
};

}  // namespace veery

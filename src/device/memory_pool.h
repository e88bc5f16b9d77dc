// memory_pool.h: a caching allocator for device memory with a limit and counters.
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

/// kLimit: the device is out of memory, possibly only for now.
class OutOfDeviceMemory : public Error {
 public:
  template <typename... Args>
  explicit OutOfDeviceMemory(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::kLimit, format, std::forward<Args>(args)...) {}
};

/// Memory counters of a device, in bytes.
struct DeviceMemory {
  size_t active = 0;  ///< in use
  size_t peak = 0;    ///< largest value of `active` since the last reset_peak()
  size_t cached = 0;  ///< released by users, kept for reuse
};

/// The functions that allocate and release memory for a pool.
struct MemorySource {
  std::function<std::byte*(size_t size)> allocate;  ///< returns nullptr if out of memory
  std::function<void(std::byte* data)> release;     ///< must not throw
  std::function<size_t()> free_bytes;               ///< for messages
  std::string_view name;                            ///< of the device, for messages
};

/// Thread-safe. Block sizes are multiples of 256 bytes, from 1 MiB on of 2 MiB. A cached block is
/// reused if it is at most a quarter larger than requested.
class MemoryPool {
 public:
  explicit MemoryPool(MemorySource source);
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();

  /// Returns at least `size` bytes with undefined contents. If the device is out of memory, frees
  /// the cached blocks and tries again. Throws OutOfDeviceMemory naming the requested, used,
  /// allowed and free sizes.
  std::byte* allocate(size_t size);
  void release(std::byte* data) noexcept;

  DeviceMemory memory() const;
  /// Returns the number of bytes that can still be allocated, as far as the device knows.
  size_t available() const;
  std::string_view name() const { return source_.name; }
  void reset_peak();
  /// Sets the limit of active plus cached bytes. If more are active already, every allocation
  /// fails.
  void set_limit(size_t bytes);
  /// Sets the limit of cached bytes. The default is 0, because a process that loads one model does
  /// not benefit from a cache.
  void set_cache_limit(size_t bytes);
  void clear_cache();

 private:
  void shrink(size_t most_cached);

  MemorySource source_;
  mutable std::mutex mutex_;
  std::unordered_map<std::byte*, size_t> sizes_;  ///< sizes of the active blocks
  std::multimap<size_t, std::byte*> cache_;       ///< cached blocks by size
  DeviceMemory memory_;
  size_t limit_ = SIZE_MAX;
  size_t cache_limit_ = 0;
};

}  // namespace veery

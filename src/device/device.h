// device.h: a device with memory of its own: what it is, its memory, and the way there and back.
#pragma once
#include <string>

#include "device/memory.h"
#include "device/memory_pool.h"

namespace veery {

/// All addresses but `host` are in the device's memory. Calls return when they are done. Errors of
/// the device are thrown as kIo, naming what was asked of it.
class Device : public MemoryOwner {
 public:
  virtual std::string description() const = 0;  ///< "NVIDIA H200 (cuda:0), 139.8 GiB"
  /// Zeroed, 256-byte aligned. Throws kLimit with the sizes wanted and free if there is not enough.
  virtual Memory allocate(size_t size) = 0;
  /// As allocate(); only parts of the memory will be touched, and the others should cost nothing
  /// where the device can do that.
  virtual Memory reserve(size_t size) { return allocate(size); }
  /// What allocate() takes from; nullptr: the system's memory, which the host has too.
  virtual MemoryPool* pool() { return nullptr; }
  virtual void upload(std::byte* to, const void* host, size_t size) = 0;
  virtual void download(void* host, const std::byte* from, size_t size) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t size) = 0;
  /// Where the host finds what lies at `data`, in memory that both share and while nothing runs;
  /// nullptr: it cannot.
  virtual std::byte* host(std::byte* data) const {
    static_cast<void>(data);
    return nullptr;
  }
};

}  // namespace veery

// device.h: the interface of a device with its own memory: description, allocation and copies.
#pragma once
#include <string>

#include "device/memory.h"
#include "device/memory_pool.h"

namespace veery {

/// All addresses except `host` are in the device's memory. Calls are synchronous. Device errors are
/// thrown as kIo, naming the operation.
class Device : public MemoryOwner {
 public:
  virtual std::string description() const = 0;  ///< "NVIDIA H200 (cuda:0), 139.8 GiB"
  /// Returns zeroed memory, 256-byte aligned. Throws kLimit naming the requested and the free size
  /// if there is not enough.
  virtual Memory allocate(size_t size) = 0;
  /// As allocate(); only parts of the memory will be touched, and the others should cost nothing
  /// where the device can do that.
  virtual Memory reserve(size_t size) { return allocate(size); }
  /// Returns the pool that allocate() uses; nullptr if it uses the host's memory.
  virtual MemoryPool* pool() { return nullptr; }
  virtual void upload(std::byte* to, const void* host, size_t size) = 0;
  virtual void download(void* host, const std::byte* from, size_t size) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t size) = 0;
  /// Returns the host's address of `data` if host and device share memory, valid while no kernel
  /// runs; nullptr otherwise.
  virtual std::byte* host(std::byte* data) const {
    static_cast<void>(data);
    return nullptr;
  }
};

}  // namespace veery

// host_device.h: the memory of the host as a Device.
#pragma once
#include <string>
#include <utility>

#include "device/device.h"

namespace veery {

/// Copies are plain copies, and every address is the host's.
class HostDevice : public Device {
 public:
  explicit HostDevice(std::string description = "CPU") : description_(std::move(description)) {}

  std::string description() const override { return description_; }
  Memory allocate(size_t size) override { return Memory(size); }
  Memory reserve(size_t size) override { return Memory(size, true); }
  void upload(std::byte* to, const void* host, size_t size) override;
  void download(void* host, const std::byte* from, size_t size) override;
  void copy(std::byte* to, const std::byte* from, size_t size) override;
  std::byte* host(std::byte* data) const override { return data; }
  void release(std::byte*) noexcept override {}  // Memory owns what allocate() returns

 private:
  std::string description_;
};

/// The host device for callers that need memory without a pool of their own.
HostDevice& host_device();

}  // namespace veery

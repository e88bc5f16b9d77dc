#include "device/host_device.h"

#include <cstring>

namespace veery {

void HostDevice::upload(std::byte* to, const void* host, size_t size) {
  if (size > 0) std::memcpy(to, host, size);
}

void HostDevice::download(void* host, const std::byte* from, size_t size) {
  if (size > 0) std::memcpy(host, from, size);
}

void HostDevice::copy(std::byte* to, const std::byte* from, size_t size) {
  if (size > 0) std::memcpy(to, from, size);
}

HostDevice& host_device() {
  static HostDevice device;
  return device;
}

}  // namespace veery

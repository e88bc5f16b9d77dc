// devices.h: the devices that tensors can be on.
#pragma once
#include <memory>
#include <string>
#include <veery/tensor.hpp>

#include "base/error.h"
#include "device/memory_pool.h"
#include "kernels/backend.h"

namespace veery::tensor {

/// Released memory of a GPU that is kept for reuse unless set_cache_limit() says otherwise: memory
/// of a GPU is slow to allocate.
inline constexpr size_t kDeviceCacheLimit = size_t{4} << 30;

/// A device. It is opened when it is first named and never closed, because tensors with static
/// storage may outlive any other object.
struct DeviceState {
  std::string name;
  std::shared_ptr<Backend> backend;       ///< nullptr: the CPU
  std::unique_ptr<TensorDevice> kernels;  ///< nullptr: the CPU

  bool is_cpu() const { return kernels == nullptr; }
  MemoryPool& memory() const;
  /// Releases a block of memory(). If the driver of a GPU has failed, the block is lost.
  void release(std::byte* data) const noexcept;
};

DeviceState& cpu_device();
/// Where tensors without operands are made.
DeviceState& default_device();
/// Adds a device under a name of its own, or returns the one that has it. Throws kUnsupported if
/// the backend has no kernels for tensors.
DeviceState& add_device(std::string name, std::shared_ptr<Backend> backend);
/// The public handle of a device.
Device handle_of(DeviceState& device);

/// The device on which this thread evaluates.
DeviceState& current_device();
/// Its kernels; nullptr: the CPU.
inline TensorDevice* current_kernels() { return current_device().kernels.get(); }
/// Sets it for a scope.
class OnDevice {
 public:
  explicit OnDevice(DeviceState& device);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();

 private:
  DeviceState* before_;
};

/// Throws an error of the lower layers as veery::tensor::Error.
[[noreturn]] void throw_public(const veery::Error& error);
/// Calls fn, whose errors become veery::tensor::Error.
template <typename Fn>
decltype(auto) with_public_errors(const Fn& fn) {
  try {
    return fn();
  } catch (const veery::Error& error) {
    throw_public(error);
  }
}

}  // namespace veery::tensor

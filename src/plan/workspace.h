// workspace.h: memory for the values of plans that run one after another.
#pragma once
#include <vector>

#include "device/host_device.h"

namespace veery {

/// Memory shared by plans that run one at a time. The values of a plan, including its roots, are
/// valid until another of these plans runs. Must outlive the plans. Not thread-safe.
class Workspace {
 public:
  /// `device` provides the memory and must outlive the workspace.
  explicit Workspace(Device& device = host_device()) : device_(&device) {}

  /// Returns a block of at least `size` bytes with undefined contents. Plans keep addresses, so a
  /// block that is too small stays allocated, and a larger one is added.
  std::byte* block(size_t size);
  /// Bytes of the block that holds the largest plan.
  size_t largest() const { return blocks_.empty() ? 0 : blocks_.back().size(); }
  /// Bytes of all blocks. Untouched pages of host memory are counted although they cost nothing.
  size_t bytes() const;

 private:
  Device* device_;
  std::vector<Memory> blocks_;  ///< each larger than the one before it
};

}  // namespace veery

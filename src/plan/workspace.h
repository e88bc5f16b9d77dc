// workspace.h: memory for the values of plans that run one after another.
#pragma once
#include <vector>

#include "device/host_device.h"

namespace veery {

/// Shared by plans of which one runs at a time: what a plan has written, its roots among it, holds
/// until the next of them runs. Must outlive them. Not thread-safe.
class Workspace {
 public:
  /// `device`: whose memory it is; must outlive the workspace.
  explicit Workspace(Device& device = host_device()) : device_(&device) {}

  /// At least `size` bytes, whose contents nobody may rely on. Plans keep the addresses, so a block
  /// that is too small for the next plan stays, and a larger one is taken beside it.
  std::byte* block(size_t size);
  /// Bytes of the block that holds the largest plan.
  size_t largest() const { return blocks_.empty() ? 0 : blocks_.back().size(); }
  /// Of all blocks. Of the host's, what was never touched costs no memory.
  size_t bytes() const;

 private:
  Device* device_;
  std::vector<Memory> blocks_;  ///< each larger than the one before it
};

}  // namespace veery

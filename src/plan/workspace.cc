#include "plan/workspace.h"

#include <algorithm>

namespace veery {

std::byte* Workspace::block(size_t size) {
  if (blocks_.empty() || blocks_.back().size() < size) blocks_.push_back(device_->reserve(size));
  return blocks_.back().data();
}

size_t Workspace::bytes() const {
  size_t bytes = 0;
  for (const Memory& block : blocks_) bytes += block.size();
  return bytes;
}

}  // namespace veery

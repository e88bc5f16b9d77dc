#include "kernels/common/top_positions.h"

#include <algorithm>
#include <functional>

namespace veery {

void TopPositions::add(std::span<const uint64_t> entries) {
  for (const uint64_t entry : entries) {
    if (count_ == TopPositions::entries(most_)) shrink();
    memory_[count_++] = entry;
  }
}

void TopPositions::shrink() {
  if (count_ <= most_) return;
  std::nth_element(memory_, memory_ + most_, memory_ + count_, std::greater<>());
  count_ = most_;
}

std::span<const uint64_t> TopPositions::kept() {
  shrink();
  return {memory_, static_cast<size_t>(count_)};
}

void TopPositions::write(int32_t* positions) {
  shrink();
  for (int64_t i = 0; i < count_; ++i)
    positions[i] = static_cast<int32_t>(~static_cast<uint32_t>(memory_[i]));
  std::sort(positions, positions + count_);
  std::fill(positions + count_, positions + most_, -1);
}

}  // namespace veery

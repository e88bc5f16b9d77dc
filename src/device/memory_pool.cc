#include "device/memory_pool.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

namespace veery {
namespace {

constexpr size_t kSmall = 256, kLarge = size_t{2} << 20;

size_t block_size(size_t size) {
  const size_t unit = size < kLarge / 2 ? kSmall : kLarge;
  return std::max(size, size_t{1}) <= SIZE_MAX - unit
             ? (std::max(size, size_t{1}) + unit - 1) / unit * unit
             : SIZE_MAX / kSmall * kSmall;
}

}  // namespace

MemoryPool::MemoryPool(MemorySource source) : source_(std::move(source)) {}

MemoryPool::~MemoryPool() { clear_cache(); }

std::byte* MemoryPool::allocate(size_t size) {
  const size_t wanted = block_size(size);
  const std::lock_guard lock(mutex_);
  std::byte* data = nullptr;
  size_t bytes = wanted;
  if (const auto kept = cache_.lower_bound(wanted);
      kept != cache_.end() && kept->first - wanted <= wanted / 4) {
    std::tie(bytes, data) = *kept;
    memory_.cached -= bytes;
    cache_.erase(kept);
  } else if (memory_.active <= limit_ && wanted <= limit_ - memory_.active) {
    shrink(limit_ - memory_.active - wanted);
    data = source_.allocate(wanted);
    if (data == nullptr && memory_.cached > 0) {
      shrink(0);
      data = source_.allocate(wanted);
    }
  }
  if (data == nullptr)
    throw OutOfDeviceMemory("{}: cannot allocate {} bytes: {} in use{}, {} free on the device",
                            source_.name, wanted, memory_.active,
                            limit_ == SIZE_MAX ? "" : fmt::format(" of a limit of {}", limit_),
                            source_.free_bytes());
  sizes_[data] = bytes;
  memory_.active += bytes;
  memory_.peak = std::max(memory_.peak, memory_.active);
  return data;
}

void MemoryPool::release(std::byte* data) noexcept {
  const std::lock_guard lock(mutex_);
  const auto block = sizes_.find(data);
  if (block == sizes_.end()) return;
  const size_t bytes = block->second;
  sizes_.erase(block);
  memory_.active -= bytes;
  if (bytes > cache_limit_) return source_.release(data);
  shrink(cache_limit_ - bytes);
  try {
    cache_.emplace(bytes, data);
    memory_.cached += bytes;
  } catch (const std::bad_alloc&) {
    source_.release(data);
  }
}

DeviceMemory MemoryPool::memory() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

size_t MemoryPool::available() const {
  const std::lock_guard lock(mutex_);
  return std::min(limit_ - std::min(limit_, memory_.active), source_.free_bytes() + memory_.cached);
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  memory_.peak = memory_.active;
}

void MemoryPool::set_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
  shrink(bytes - std::min(bytes, memory_.active));
}

void MemoryPool::set_cache_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  cache_limit_ = bytes;
  shrink(bytes);
}

void MemoryPool::clear_cache() {
  const std::lock_guard lock(mutex_);
  shrink(0);
}

// Frees the largest blocks first: they are the least likely to fit the next request.
void MemoryPool::shrink(size_t most_cached) {
  while (memory_.cached > most_cached) {
    const auto largest = std::prev(cache_.end());
    source_.release(largest->second);
    memory_.cached -= largest->first;
    cache_.erase(largest);
  }
}

}  // namespace veery

// memory.h: large memory blocks for weights, KV caches and activations.
#pragma once
#include <cstddef>

namespace veery {

/// Owns the memory of a device; Memory returns its block here.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  virtual void release(std::byte* data) noexcept = 0;
};

/// A zeroed block, 64-byte aligned (2 MiB if it is at least that large). Host pages are committed
/// when they are first touched. A block of a device (device/device.h) may be readable by that
/// device only. Move-only.
class Memory {
 public:
  Memory() = default;
  /// Wraps memory that `owner` allocated; `owner` must outlive it.
  Memory(std::byte* data, size_t size, MemoryOwner& owner)
      : data_(data), size_(size), owner_(&owner) {}
  /// Throws kLimit naming the size if the system refuses. With `sparse`, uses small pages, so that
  /// untouched parts cost nothing.
  explicit Memory(size_t size, bool sparse = false);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  MemoryOwner* owner_ = nullptr;
};

inline constexpr size_t kAlignment = 64;
inline constexpr size_t aligned(size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace veery

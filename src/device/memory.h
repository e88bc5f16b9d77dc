// memory.h: large blocks of memory for weights, caches and activations.
#pragma once
#include <cstddef>

namespace veery {

/// Gives memory of a device, and takes it back.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  virtual void release(std::byte* data) noexcept = 0;
};

/// Zeroed, 64-byte aligned (2 MiB from that size on), taken from the system when first touched; or
/// of a device (device/device.h), where only that can read it. Move-only.
class Memory {
 public:
  Memory() = default;
  /// What `owner`, which must outlive it, has given.
  Memory(std::byte* data, size_t size, MemoryOwner& owner)
      : data_(data), size_(size), owner_(&owner) {}
  /// Throws kLimit with the size if the system refuses.
  /// `sparse`: only parts will be touched, so pages stay small and what is not touched costs
  /// nothing.
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

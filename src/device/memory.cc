#include "device/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Memory::Memory(size_t size, bool sparse) : size_(size) {
  if (size == 0) return;
  const size_t alignment = size >= kHugePage && !sparse ? kHugePage : 4096;
  mapped_ = size + alignment;
  mapping_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(ErrorKind::kLimit, "memory: cannot allocate {} bytes: {}", size,
                std::strerror(errno));
  }
  const auto address =
      (reinterpret_cast<uintptr_t>(mapping_) + alignment - 1) / alignment * alignment;
  data_ = reinterpret_cast<std::byte*>(address);
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage)
    ::madvise(data_, size, MADV_HUGEPAGE);  // fewer TLB misses; failure is harmless
#endif
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(owner_, other.owner_);
  return *this;
}

Memory::~Memory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
  if (owner_ != nullptr && data_ != nullptr) owner_->release(data_);
}

}  // namespace veery

#include "tensor/runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tensor/node.h"

namespace veery::tensor {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kHugePage = size_t{2} << 20;
/// Released memory that is kept for reuse unless set_cache_limit() says otherwise.
constexpr size_t kCacheLimit = size_t{256} << 20;

// Large blocks, whose sizes are multiples of a huge page, are made of these: fewer page faults and
// TLB misses.
std::byte* allocate(size_t size) {
  const size_t alignment = size >= kHugePage ? kHugePage : kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
#ifdef MADV_HUGEPAGE
  if (data != nullptr && alignment == kHugePage)
    ::madvise(data, size, MADV_HUGEPAGE);  // failure is harmless
#endif
  return data;
}

size_t free_bytes() {
  const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);  // NOLINT
  return pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : 0;
}

}  // namespace

Runtime& Runtime::get() {
  static Runtime* runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime()
    : memory_({.allocate = allocate,
               .release = [](std::byte* data) { std::free(data); },
               .free_bytes = free_bytes,
               .name = "tensors"}),
      target_(supported_targets().front()) {
  memory_.set_cache_limit(kCacheLimit);
}

void Runtime::set_threads(int count) {
  const std::lock_guard lock(mutex());
  if (count < 0) fail(ErrorKind::kInput, "set_threads: {} threads, expected 0 or more", count);
  if (pool_) fail(ErrorKind::kInput, "set_threads: tensors have been evaluated already");
  threads_ = count;
}

std::mutex& Runtime::mutex() {
  const pid_t process = process_;
  if (process != 0 && process != getpid())
    fail(ErrorKind::kUnsupported, "this process was forked after tensors had been evaluated");
  return mutex_;
}

ThreadPool& Runtime::pool() {
  if (!pool_) {
    pool_ = std::make_unique<ThreadPool>(threads_);
    process_ = getpid();
  }
  return *pool_;
}

void set_threads(int count) { Runtime::get().set_threads(count); }

}  // namespace veery::tensor

#include "base/threads/fair_lock.h"

namespace veery {

void FairLock::lock() {
  if (is_held_by_caller()) {
    ++depth_;
    return;
  }
  {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = next_++;
    served_.wait(lock, [&] { return serving_ == ticket; });
  }
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  depth_ = 1;
}

void FairLock::unlock() {
  if (--depth_ > 0) return;
  owner_.store({}, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (++serving_ != next_) served_.notify_all();  // only the thread with the next ticket goes on
}

}  // namespace veery

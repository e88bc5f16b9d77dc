// fair_lock.h: a mutex that threads get in the order in which they asked for it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace veery {

/// A recursive ticket lock. Waiting threads sleep, because what it guards (a run of a plan, a job
/// of a thread pool) takes milliseconds. With std::mutex, a thread that locks again at once, such
/// as a decode loop, would keep all other threads out.
class FairLock {
 public:
  FairLock() = default;
  FairLock(const FairLock&) = delete;
  FairLock& operator=(const FairLock&) = delete;

  void lock();
  void unlock();
  bool is_held_by_caller() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::mutex mutex_;
  std::condition_variable served_;
  uint64_t next_ = 0, serving_ = 0;       ///< tickets
  std::atomic<std::thread::id> owner_{};  ///< equal to the caller only if the caller holds the lock
  int depth_ = 0;                         ///< of the owner
};

}  // namespace veery

// thread_pool.h: a fixed set of worker threads that execute a job together.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/spin_barrier.h"
#include "base/threads/fair_lock.h"

namespace veery {

/// A pool of `size` workers; the caller of run() is worker 0. Between jobs workers spin for a short
/// while and then sleep. run() does not allocate. Several threads may use a pool: their jobs run
/// one after another, in the order of the calls.
class ThreadPool {
 public:
  /// A size of 0 means available_cores().
  explicit ThreadPool(int size = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return size_; }
  SpinBarrier& barrier() { return barrier_; }

  /// Calls job(index) on every worker and returns when all are done. Rethrows the first exception
  /// of a worker; a job that uses barrier() must not throw. A job must not call run(), nor wait for
  /// a lock that is held during a call of run().
  template <typename Job>
  void run(const Job& job) {
    run_erased([](const void* self, int index) { (*static_cast<const Job*>(self))(index); }, &job);
  }

  /// Calls body(begin, end) over pieces of [0, count) of at most `grain` items. A worker first
  /// takes the pieces of its own share, then steals from the others. The shares equal those of the
  /// kernels, so the first touch places the pages of a weight near the worker that will multiply
  /// it. A single piece runs on the caller without waking workers.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    struct alignas(64) Part {
      std::atomic<int64_t> next;
      int64_t end;
    };
    const int64_t pieces = (count + grain - 1) / grain;
    if (pieces == 1) return body(0, count);
    std::vector<Part> parts(static_cast<size_t>(size_));
    for (int i = 0; i < size_; ++i) {
      Part& part = parts[static_cast<size_t>(i)];
      part.next = pieces * i / size_ * grain;
      part.end = std::min(count, pieces * (i + 1) / size_ * grain);
    }
    run([&](int index) {
      for (int k = 0; k < size_; ++k) {
        Part& part = parts[static_cast<size_t>((index + k) % size_)];
        for (int64_t begin; (begin = part.next.fetch_add(grain)) < part.end;)
          body(begin, std::min(begin + grain, part.end));
      }
    });
  }

  /// Calls body(begin, end) over pieces of [0, count) that take long, in several jobs. Other users
  /// of the pool wait for a few pieces, not for all of them.
  template <typename Body>
  void parallel_for_long(int64_t count, const Body& body) {
    const int64_t together = int64_t{4} * size_;
    for (int64_t at = 0; at < count; at += together)
      parallel_for(std::min(together, count - at), 1,
                   [&](int64_t begin, int64_t end) { body(at + begin, at + end); });
  }

 private:
  using Erased = void (*)(const void*, int);
  void run_erased(Erased call, const void* job);
  void work(int index);
  void perform(int index) noexcept;

  int size_;
  FairLock turn_;  ///< held during a job
  SpinPolicy policy_;
  SpinBarrier barrier_;
  std::vector<std::thread> threads_;
  Erased call_ = nullptr;
  const void* job_ = nullptr;
  alignas(64) std::atomic<unsigned> generation_{0};
  SpinWord running_;  ///< workers other than the caller that have not finished
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::exception_ptr failure_;
};

}  // namespace veery

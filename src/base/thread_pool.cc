#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace veery {
namespace {

// Pins a worker to its own core. The scheduler does not separate spinning threads that share a
// core, so each worker except the caller is pinned, if there are enough cores.
void pin([[maybe_unused]] std::thread& thread, [[maybe_unused]] int processor) {
#if defined(__linux__)
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  ::pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);  // a failure only costs speed
#endif
}

}  // namespace

ThreadPool::ThreadPool(int size)
    : size_(size > 0 ? size : available_cores()), barrier_(size_, policy_), running_(policy_) {
  threads_.reserve(static_cast<size_t>(size_ - 1));
  const std::vector<int> processors = sort_by_core(allowed_processors()).order;
  for (int i = 1; i < size_; ++i) {
    threads_.emplace_back([this, i] { work(i); });
    if (processors.size() >= static_cast<size_t>(size_))
      pin(threads_.back(), processors[static_cast<size_t>(i)]);
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::perform(int index) noexcept {
  try {
    call_(job_, index);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void ThreadPool::run_erased(Erased call, const void* job) {
  VEERY_CHECK(!turn_.is_held_by_caller());  // a job must not call run()
  const std::lock_guard turn(turn_);
  call_ = call;
  job_ = job;
  running_.reset(static_cast<unsigned>(size_ - 1));
  generation_.fetch_add(1);  // sequentially consistent with sleeping_, or a sleeper could be missed
  if (sleeping_.load() > 0) {
    { const std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  perform(0);
  while (const unsigned left = running_.load()) running_.wait_while(left);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int index) {
  unblock_bus_errors();
  unsigned seen = 0;
  while (true) {
    // Usually long enough to bridge the gap between two decode steps.
    const int most = policy_.spins();
    for (int spins = 0; spins < most; ++spins) {
      if (generation_.load(std::memory_order_acquire) != seen || stop_.load()) break;
      relax();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      sleeping_.fetch_add(1);
      wake_.wait(lock, [&] { return generation_.load() != seen || stop_.load(); });
      sleeping_.fetch_sub(1);
    }
    if (generation_.load(std::memory_order_acquire) == seen) return;  // woken to stop
    ++seen;
    perform(index);
    running_.count_down();
  }
}

}  // namespace veery

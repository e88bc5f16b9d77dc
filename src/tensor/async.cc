#include "tensor/async.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "tensor/evaluate.h"

namespace veery::tensor {
namespace {

/// Runs jobs in order. Never destroyed, as tensors with static storage may outlive any other
/// object; its thread ends at exit, before objects with static storage that were made earlier.
class Jobs {
 public:
  static Jobs& get() {
    static Jobs* jobs = new Jobs;
    return *jobs;
  }

  void add(std::vector<Tensor> tensors) {
    const std::lock_guard lock(mutex_);
    if (is_over_) fail(ErrorKind::kUnsupported, "async_eval: the process ends");
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { work(); });
      std::atexit([] { get().finish(); });
    }
    queue_.push_back(std::move(tensors));
    pending_.fetch_add(1, std::memory_order_release);
    added_.notify_one();
  }

  void wait() {
    if (pending_.load(std::memory_order_acquire) == 0) return;
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return pending_.load(std::memory_order_acquire) == 0; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      added_.wait(lock, [this] { return is_over_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::vector<Tensor> tensors = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        eval_now(tensors);
      } catch (...) {
        // eval() computes the tensors again and throws.
      }
      tensors.clear();  // before the job counts as done, as tensors belong to the waiting thread
      lock.lock();
      pending_.fetch_sub(1, std::memory_order_release);
      done_.notify_all();
    }
  }
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      added_.notify_one();
    }
    thread_.join();
  }

  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::deque<std::vector<Tensor>> queue_;
  std::atomic<int> pending_ = 0;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

void wait_for_jobs() { Jobs::get().wait(); }

void async_eval(std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) require("async_eval", x);
  if (KeepInputs::active()) return eval(tensors);
  Jobs::get().add({tensors.begin(), tensors.end()});
}

}  // namespace veery::tensor

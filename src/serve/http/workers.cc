#include "serve/http/workers.h"

#include <exception>
#include <utility>

namespace veery::serve {

bool Workers::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    const auto waiting = static_cast<int32_t>(work_.size());
    const auto threads = static_cast<int32_t>(threads_.size());
    if (idle_ == 0 && threads >= most_ && waiting >= most_waiting_) return false;
    work_.push_back(std::move(work));
    if (idle_ <= waiting && threads < most_ && !add_thread() && threads_.empty()) {
      work_.pop_back();
      return false;
    }
  }
  ready_.notify_one();
  join_ended();
  return true;
}

void Workers::join() {
  Threads all;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    all.swap(threads_);
  }
  ready_.notify_all();
  for (std::thread& thread : all) thread.join();
  join_ended();
}

int32_t Workers::threads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(threads_.size());
}

// Returns false if no thread can be started; the work then waits for other threads.
bool Workers::add_thread() {
  Threads one;
  try {
    one.emplace_back();
    one.front() = std::thread([this, self = one.begin()] { loop(self); });
  } catch (const std::exception&) {
    return false;
  }
  threads_.splice(threads_.end(), one);
  return true;
}

void Workers::loop(Threads::iterator self) {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    const bool some = ready_.wait_for(lock, idle_time_, [&] { return stop_ || !work_.empty(); });
    --idle_;
    if (work_.empty()) {
      if (!some && !stop_) ended_.splice(ended_.end(), threads_, self);
      return;
    }
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // without the lock: destructors may take a while
    lock.lock();
  }
}

void Workers::join_ended() {
  Threads ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  for (std::thread& thread : ended) thread.join();
}

}  // namespace veery::serve

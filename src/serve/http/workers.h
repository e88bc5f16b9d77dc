// workers.h: threads that answer requests, made as they are needed.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace veery::serve {

/// Safe to use from several threads, but for join().
class Workers {
 public:
  /// At most `most` threads and `waiting` pieces of work without one. A thread ends after `idle`
  /// without work.
  Workers(int32_t most, int32_t waiting, std::chrono::milliseconds idle = kIdle)
      : most_(most), most_waiting_(waiting), idle_time_(idle) {}
  ~Workers() { join(); }

  /// False: too many wait, or there is no memory for a thread.
  bool post(std::function<void()> work);
  /// Waits until what was posted is done.
  void join();
  /// Threads that live now.
  int32_t threads() const;

 private:
  static constexpr std::chrono::milliseconds kIdle{10000};
  using Threads = std::list<std::thread>;

  bool add_thread();
  void loop(Threads::iterator self);
  void join_ended();

  int32_t most_, most_waiting_;
  std::chrono::milliseconds idle_time_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> work_;
  Threads threads_, ended_;  // those that ended are still to be joined
  int32_t idle_ = 0;
  bool stop_ = false;
};

}  // namespace veery::serve

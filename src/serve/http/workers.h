// workers.h: a pool of threads that grows and shrinks with the work.
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

/// Safe to use from several threads, except join().
class Workers {
 public:
  /// Runs at most `most` threads and queues at most `waiting` pieces of work. A thread ends after
  /// `idle` without work.
  Workers(int32_t most, int32_t waiting, std::chrono::milliseconds idle = kIdle)
      : most_(most), most_waiting_(waiting), idle_time_(idle) {}
  ~Workers() { join(); }

  /// Returns false if the queue is full or no thread can be started.
  bool post(std::function<void()> work);
  /// Waits until all posted work is done.
  void join();
  /// Returns the current number of threads.
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
  Threads threads_, ended_;  // ended_: to be joined
  int32_t idle_ = 0;
  bool stop_ = false;
};

}  // namespace veery::serve

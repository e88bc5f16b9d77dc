// spin_barrier.h: short waits between threads: spin first, then sleep.
#pragma once
#include <atomic>

namespace veery {

/// Hints to the CPU that the thread is spinning.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Controls how long the threads of a pool spin before they sleep. Waits usually take less than a
/// microsecond, and waking a thread takes tens of microseconds, so threads spin for long. On a
/// contended machine spinning delays the awaited thread, because the spinner uses CPU time that
/// this thread needs. A wait longer than a time slice shows that a worker was descheduled. Threads
/// then sleep almost at once, until kCalm seconds have passed without such a wait.
class SpinPolicy {
 public:
  /// Number of pause instructions to spin for, about 30 ns each on current CPUs.
  int spins() const noexcept { return spins_.load(std::memory_order_relaxed); }
  /// Records that a thread gave up spinning and slept from `start` to `end` (seconds_now()).
  void slept(double start, double end) noexcept;

 private:
  static constexpr int kMostSpins = 20000, kLeastSpins = 50;
  /// Waits of this many seconds or more indicate contention; time slices of Linux are 3 ms or more.
  static constexpr double kTimeSlice = 1e-3;
  /// Seconds without such a wait after which threads spin for long again.
  static constexpr double kCalm = 0.05;

  std::atomic<int> spins_{kMostSpins};
  std::atomic<double> contended_{0};  ///< when the last wait of kTimeSlice or more ended
};

/// An integer that threads wait on: they spin, then sleep.
class SpinWord {
 public:
  /// `policy` must outlive the word.
  explicit SpinWord(SpinPolicy& policy, unsigned value = 0) : value_(value), policy_(policy) {}
  unsigned load() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Stores without waking sleepers.
  void reset(unsigned value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void store(unsigned value) noexcept;
  /// Subtracts 1 and wakes sleepers if the result is 0.
  void count_down() noexcept;
  /// Returns when the value is no longer `old`.
  void wait_while(unsigned old) noexcept;

 private:
  void wake() noexcept;

  alignas(64) std::atomic<unsigned> value_;
  alignas(64) std::atomic<int> sleeping_{0};
  SpinPolicy& policy_;
};

/// A reusable barrier for `count` threads.
class SpinBarrier {
 public:
  /// `policy` must outlive the barrier.
  SpinBarrier(int count, SpinPolicy& policy) : count_(count), generation_(policy) {}
  /// Returns after all threads have called it.
  void wait() noexcept;

 private:
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  SpinWord generation_;
};

}  // namespace veery

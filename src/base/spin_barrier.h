// spin_barrier.h: short waits for other threads.
#pragma once
#include <atomic>

namespace veery {

/// Tells the processor that this is a loop that waits.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A number that threads wait for. They spin, since waits are meant to be below a microsecond, and
/// sleep where spinning is in vain: on a busy machine who spins keeps others from what it waits
/// for, and is put off by the scheduler for the time that it used. How long they spin follows from
/// how long they slept: longer after sleeps of less than kLongWait seconds, shorter after others,
/// which tell that the other thread has lost its processor.
class SpinningWord {
 public:
  explicit SpinningWord(unsigned value = 0) : value_(value) {}
  unsigned load() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Stores without waking: for a value that nobody waits to see.
  void reset(unsigned value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void store(unsigned value) noexcept;
  /// Subtracts 1, and wakes when this gives 0.
  void count_down() noexcept;
  /// Returns when the value is no longer `old`.
  void wait_while(unsigned old) noexcept;

 private:
  void wake() noexcept;

  alignas(64) std::atomic<unsigned> value_;
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<int> patience_{kMostSpins};
  static constexpr int kMostSpins = 20000, kLeastSpins = 100;
  static constexpr double kLongWait = 1e-3;
};

/// All workers meet here; the last to arrive lets the others go. Reusable at once.
class SpinBarrier {
 public:
  explicit SpinBarrier(int count) : count_(count) {}
  void wait() noexcept;

 private:
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  SpinningWord generation_;
};

}  // namespace veery

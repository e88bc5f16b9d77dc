#include "base/spin_barrier.h"

#include <climits>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/clock.h"

namespace veery {
namespace {

#if defined(__linux__)
// Sleeps in the kernel (futex), which checks that the word is still `old` first. std::atomic::wait
// is not used because it yields first, which gives up a whole time slice on a contended CPU.
void sleep_while(std::atomic<unsigned>& word, unsigned old) noexcept {
  static_assert(sizeof word == 4 && std::atomic<unsigned>::is_always_lock_free);
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, old, nullptr);
}
void wake_all(std::atomic<unsigned>& word) noexcept {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX);
}
#else
void sleep_while(std::atomic<unsigned>& word, unsigned old) noexcept { word.wait(old); }
void wake_all(std::atomic<unsigned>& word) noexcept { word.notify_all(); }
#endif

}  // namespace

void SpinPolicy::slept(double start, double end) noexcept {
  if (end - start >= kTimeSlice) {
    contended_.store(end, std::memory_order_relaxed);
    spins_.store(kLeastSpins, std::memory_order_relaxed);
  } else if (end - contended_.load(std::memory_order_relaxed) > kCalm) {
    spins_.store(kMostSpins, std::memory_order_relaxed);
  }
}

// value_ and sleeping_ are sequentially consistent: either the storing thread sees the sleeper, or
// the sleeper sees the new value before it sleeps.
void SpinWord::store(unsigned value) noexcept {
  value_.store(value);
  wake();
}

void SpinWord::count_down() noexcept {
  if (value_.fetch_sub(1) == 1) wake();
}

void SpinWord::wake() noexcept {
  if (sleeping_.load() > 0) wake_all(value_);
}

void SpinWord::wait_while(unsigned old) noexcept {
  const int most = policy_.spins();
  for (int spins = 0; spins < most; ++spins) {
    if (load() != old) return;
    relax();
  }
  const double start = seconds_now();
  sleeping_.fetch_add(1);
  while (value_.load() == old) sleep_while(value_, old);
  sleeping_.fetch_sub(1);
  policy_.slept(start, seconds_now());
}

void SpinBarrier::wait() noexcept {
  if (count_ == 1) return;
  const unsigned generation = generation_.load();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1);
    return;
  }
  generation_.wait_while(generation);
}

}  // namespace veery

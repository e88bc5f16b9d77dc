#include "kernels/cpu/backend/cpu_peak_rates.h"

#include <atomic>

#include "base/clock.h"
#include "kernels/peak_rates.h"

namespace veery {
namespace {

constexpr int64_t kTurns = 20000;  // about a millisecond
constexpr int kBarriers = 1000;
constexpr size_t kLine = 64;

template <typename Job>
double seconds_of(ThreadPool& pool, const Job& job) {
  const double start = seconds_now();
  pool.run(job);
  return seconds_now() - start;
}

template <typename Loop>
double rate_of(ThreadPool& pool, const Loop& loop, Target target) {
  double operations = 0;
  const double seconds = seconds_of(pool, [&](int index) {
    const double done = loop(target, kTurns);
    if (index == 0) operations = done;
  });
  return operations * pool.size() / seconds;
}

double read_rate(ThreadPool& pool, Target target, std::span<const MemoryPiece> weights) {
  std::atomic<uint64_t> used = 0;
  size_t all = 0;
  for (const MemoryPiece& piece : weights) all += piece.size;
  const double seconds = seconds_of(pool, [&](int index) {
    uint64_t sum = 0;
    for (const MemoryPiece& piece : weights) {
      const Share own = share(static_cast<int64_t>(piece.size), kLine, {index, pool.size()});
      sum += read_loop(target, piece.data + own.begin, static_cast<size_t>(own.end - own.begin));
    }
    used += sum;
  });
  return static_cast<double>(all) / seconds;
}

double barrier_seconds(ThreadPool& pool) {
  const double seconds = seconds_of(pool, [&](int) {
    for (int i = 0; i < kBarriers; ++i) pool.barrier().wait();
  });
  return seconds / kBarriers;
}

}  // namespace

PeakRates measure_cpu_peak_rates(ThreadPool& pool, Target target,
                                 std::span<const MemoryPiece> weights) {
  return {.memory = read_rate(pool, target, weights),
          .f32 = rate_of(pool, fma_loop, target),
          .bf16 = rate_of(pool, bf16_loop, target),
          .int8 = rate_of(pool, dot4_loop, target),
          .least = barrier_seconds(pool)};
}

}  // namespace veery

// Measures jobs of 200 phases with a barrier after each, like a decode step, on a quiet machine and
// next to busy threads of the same priority. Reports time per job; arguments: workers, microseconds
// of work per phase (shared by the workers), number of busy threads.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace veery {
namespace {

constexpr int kPhases = 200;

// Takes about a microsecond of dependent arithmetic per unit.
void work(int64_t microseconds) {
  double x = 1;
  for (int64_t i = 0; i < microseconds * 250; ++i) x = x * 1.0000001 + 1e-9;
  benchmark::DoNotOptimize(x);
}

void phases(benchmark::State& state) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> neighbours;
  for (int64_t i = 0; i < state.range(2); ++i)
    neighbours.emplace_back([&] {
      while (!stop) work(100);
    });
  {
    ThreadPool pool(static_cast<int>(state.range(0)));
    const int64_t share = state.range(1) / pool.size();
    for (auto _ : state)
      pool.run([&](int) {
        for (int phase = 0; phase < kPhases; ++phase) {
          work(share);
          pool.barrier().wait();
        }
      });
  }
  stop = true;
  for (std::thread& each : neighbours) each.join();
}
BENCHMARK(phases)
    ->ArgNames({"workers", "us", "neighbours"})
    ->ArgsProduct({{1, 2}, {4, 40, 400}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace veery

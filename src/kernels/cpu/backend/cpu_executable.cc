#include "kernels/cpu/backend/cpu_executable.h"

#include <cstring>

#include "base/clock.h"

namespace veery {

CpuExecutable::CpuExecutable(ThreadPool& pool, std::span<const Step> steps,
                             std::span<const Operand> results, const HostMemory& memory)
    : pool_(pool), memory_(memory), taken_(steps.size() * static_cast<size_t>(pool.size())) {
  table_.reserve(steps.size());
  for (const Step& step : steps) table_.push_back(step.dispatch);
  for (const Operand& result : results) results_.push_back(result.data);
}

void CpuExecutable::start() noexcept {
#ifndef NDEBUG
  // Fills the values with NaN, so that a kernel that reads a value before it is written shows.
  for (const std::span<std::byte> bytes : {memory_.values, memory_.results})
    if (!bytes.empty()) std::memset(bytes.data(), 0xff, bytes.size());
#endif
  for (std::atomic<int32_t>& count : taken_) count.store(0, std::memory_order_relaxed);
}

Worker CpuExecutable::worker(int index) noexcept {
  return {index, pool_.size(),
          memory_.scratch + memory_.scratch_stride * static_cast<size_t>(index), taken_.data()};
}

void CpuExecutable::run(const RunShape& shape) {
  SpinBarrier& barrier = pool_.barrier();
  start();
  pool_.run([&](int index) {
    Worker worker = this->worker(index);
    for (const Dispatch& dispatch : table_) {
      dispatch.run(dispatch, shape, worker);
      worker.taken += worker.count;
      barrier.wait();
    }
  });
}

void CpuExecutable::run_profiled(const RunShape& shape, std::vector<double>& seconds) {
  seconds.resize(table_.size(), 0);
  SpinBarrier& barrier = pool_.barrier();
  start();
  pool_.run([&](int index) {
    Worker worker = this->worker(index);
    double last = seconds_now();
    for (size_t i = 0; i < table_.size(); ++i) {
      table_[i].run(table_[i], shape, worker);
      worker.taken += worker.count;
      barrier.wait();
      if (index != 0) continue;
      const double now = seconds_now();
      seconds[i] += now - last;
      last = now;
    }
  });
}

}  // namespace veery

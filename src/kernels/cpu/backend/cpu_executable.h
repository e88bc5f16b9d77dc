// cpu_executable.h: a table of dispatches that the threads of a pool walk through.
#pragma once
#include <atomic>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/backend.h"

namespace veery {

/// run() does not allocate, lock or look anything up.
class CpuExecutable : public Executable {
 public:
  CpuExecutable(ThreadPool& pool, std::span<const Step> steps, std::span<const Operand> results,
                const HostMemory& memory);

  void run(const RunShape& shape) override;
  void run_profiled(const RunShape& shape, std::vector<double>& seconds) override;
  void fetch(size_t) override {}
  const std::byte* result(size_t i) const override { return results_[i]; }

 private:
  void start() noexcept;
  Worker worker(int index) noexcept;  // for the first row of the table

  ThreadPool& pool_;
  HostMemory memory_;
  std::vector<Dispatch> table_;
  std::vector<const std::byte*> results_;
  std::vector<std::atomic<int32_t>> taken_;  // [row of the table][worker], see Worker
};

}  // namespace veery

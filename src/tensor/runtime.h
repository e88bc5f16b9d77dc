// runtime.h: what all evaluations of tensors share: workers, memory, the instruction set.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "base/thread_pool.h"
#include "device/memory_pool.h"
#include "kernels/kernels.h"

namespace veery::tensor {

/// One per process, made when it is first used and never destroyed, because tensors with static
/// storage may outlive any other object.
class Runtime {
 public:
  static Runtime& get();
  /// Throws kInput after the first evaluation.
  void set_threads(int count);

  /// Held by an evaluation: the workers do one thing at a time. Throws kUnsupported in a process
  /// that was forked after the workers were made, because it does not have them.
  std::mutex& mutex();
  ThreadPool& pool();  ///< call with mutex() held
  MemoryPool& memory() { return memory_; }
  Target target() const { return target_; }

 private:
  Runtime();
  std::mutex mutex_;
  std::unique_ptr<ThreadPool> pool_;
  std::atomic<pid_t> process_{0};  ///< that has the workers; 0: there are none yet
  int threads_ = 0;
  MemoryPool memory_;
  Target target_;
};

}  // namespace veery::tensor

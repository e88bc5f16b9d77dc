// runtime.h: what all evaluations of tensors share: workers, memory, the instruction set.
#pragma once
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

  /// Held by an evaluation: the workers do one thing at a time.
  std::mutex& mutex() { return mutex_; }
  /// Call with mutex() held. Throws kUnsupported in a process forked from the one that has the
  /// threads.
  ThreadPool& pool();
  MemoryPool& memory() { return memory_; }
  Target target() const { return target_; }

 private:
  Runtime();
  std::mutex mutex_;
  std::unique_ptr<ThreadPool> pool_;
  int process_ = 0;  ///< that made the pool
  int threads_ = 0;
  MemoryPool memory_;
  Target target_;
};

}  // namespace veery::tensor

// executor.h: the threads, devices and arenas that the models of a process share.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/backend.h"
#include "plan/workspace.h"

namespace veery {

/// Owns the thread pool and the CPU as a backend. Models that name the same devices get the same
/// backends, and sessions on one device the same arena: a device lives as long as a model uses it,
/// an arena as long as a session does. Runs on a device take turns in the order in which they came,
/// and memory for activations is that of the largest model, not the sum. Plans and their results
/// belong to the sessions and encoders, because a plan points into the inputs and caches of its
/// user. Thread-safe. Models keep their executor alive.
class Executor {
 public:
  /// `threads`: of the pool; 0: the cores that this process may use.
  explicit Executor(int threads = 0) : pool_(threads) {}
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  ThreadPool& pool() { return pool_; }
  int threads() const { return pool_.size(); }
  /// The CPU with the kernels of `target`, which the machine must have.
  Backend& cpu(Target target);
  /// find_backends(): models that name the same devices get the same backends, which live as long
  /// as one of the models.
  std::vector<std::shared_ptr<Backend>> devices(const std::string& names, std::string& why,
                                                bool relaxed = false);
  /// The arena of a device, which must outlive it. No two executors may use a device at a time.
  std::shared_ptr<Arena> arena(Device& device);
  /// An arena of one user, whose plans then stay valid whatever others do. Runs take turns with
  /// those of the shared arena.
  std::shared_ptr<Arena> own_arena(Device& device);

 private:
  struct Found {
    std::vector<std::weak_ptr<Backend>> backends;
    std::string why;
  };

  struct Shared {
    std::weak_ptr<FairLock> turn;
    std::weak_ptr<Arena> arena;
  };

  std::shared_ptr<FairLock> turn_of(const Device& device);

  ThreadPool pool_;
  std::mutex mutex_;
  std::map<Target, std::unique_ptr<Backend>> cpus_;
  std::map<std::pair<std::string, bool>, Found> devices_;
  std::map<const Device*, Shared> arenas_;
};

}  // namespace veery

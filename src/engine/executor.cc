#include "engine/executor.h"

#include <algorithm>

#include "kernels/cpu/backend/cpu_backend.h"
#include "kernels/find_backend.h"

namespace veery {

Backend& Executor::cpu(Target target) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Backend>& cpu = cpus_[target];
  if (!cpu) cpu = make_cpu_backend(pool_, target);
  return *cpu;
}

std::vector<std::shared_ptr<Backend>> Executor::devices(const std::string& names, std::string& why,
                                                        bool relaxed) {
  const std::lock_guard lock(mutex_);
  Found& found = devices_[{names, relaxed}];
  std::vector<std::shared_ptr<Backend>> backends;
  for (const std::weak_ptr<Backend>& known : found.backends)
    if (auto backend = known.lock()) backends.push_back(std::move(backend));
  if (backends.empty() || backends.size() < found.backends.size()) {
    found.why.clear();
    backends = find_backends(names, found.why, relaxed);
    found.backends.assign(backends.begin(), backends.end());
  }
  why = found.why;
  return backends;
}

// Arenas hold their turn, and devices outlive their arenas. An entry whose turn has expired may
// belong to a device that no longer exists.
std::shared_ptr<FairLock> Executor::turn_of(const Device& device) {
  std::erase_if(arenas_, [](const auto& entry) { return entry.second.turn.expired(); });
  std::weak_ptr<FairLock>& known = arenas_[&device].turn;
  std::shared_ptr<FairLock> turn = known.lock();
  if (!turn) known = turn = std::make_shared<FairLock>();
  return turn;
}

std::shared_ptr<Arena> Executor::arena(Device& device) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<FairLock> turn = turn_of(device);
  std::weak_ptr<Arena>& known = arenas_[&device].arena;
  std::shared_ptr<Arena> arena = known.lock();
  if (!arena) known = arena = std::make_shared<Arena>(device, turn);
  return arena;
}

std::shared_ptr<Arena> Executor::own_arena(Device& device) {
  const std::lock_guard lock(mutex_);
  return std::make_shared<Arena>(device, turn_of(device));
}

}  // namespace veery

// workspace.h: memory for the values of plans: an arena that all plans on a device share, and
// memory for results that belongs to one user of plans.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/threads/fair_lock.h"
#include "device/host_device.h"

namespace veery {

/// Bytes of a workspace.
struct WorkspaceBytes {
  size_t values = 0;   ///< in the arena
  size_t results = 0;  ///< the workspace's own
  bool operator==(const WorkspaceBytes&) const = default;
};

/// One block of memory of a device for the values of plans, one of which runs at a time. The block
/// has the size of the largest demand of a workspace. When that changes, another block takes its
/// place, so plans made before can no longer run (Plan::is_current()). Thread-safe.
class Arena {
 public:
  /// `device` provides the memory and must outlive the arena. `turn`: shared by all arenas of the
  /// device.
  explicit Arena(Device& device, std::shared_ptr<FairLock> turn = std::make_shared<FairLock>())
      : device_(device), turn_(std::move(turn)) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Held by whoever runs or makes plans on the device. Threads get it in the order in which they
  /// asked. No thread may wait for it in a job of a thread pool, as runs use the pool.
  FairLock& turn() const { return *turn_; }
  /// Changes with the block. Only constant during a turn.
  uint64_t version() const { return version_; }
  size_t bytes() const;

 private:
  friend class Workspace;
  std::byte* require(size_t& demand, size_t size);
  void withdraw(size_t demand) noexcept;
  void fit();

  Device& device_;
  std::shared_ptr<FairLock> turn_;
  std::multiset<size_t> demands_;
  Memory block_;
  uint64_t version_ = 1;
};

/// Sorts arenas by their turns and removes duplicates.
void sort_arenas(std::vector<Arena*>& arenas);

/// The turn on several arenas. Does not allocate.
class Turn {
 public:
  /// `arenas`: sorted (sort_arenas()), so that threads that need several ones cannot deadlock.
  explicit Turn(std::span<Arena* const> arenas) : arenas_(arenas) {
    for (Arena* const arena : arenas_) arena->turn().lock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    for (Arena* const arena : arenas_) arena->turn().unlock();
  }

 private:
  std::span<Arena* const> arenas_;
};

/// Memory for plans that one user runs one at a time, such as those of a session. Intermediate
/// values are in an arena that other workspaces share. Results (the roots of plans) are in memory
/// of the workspace: they stay valid while others run, until the next run of a plan with this
/// workspace. Must outlive the plans. Not thread-safe.
class Workspace {
 public:
  explicit Workspace(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  /// With an arena of its own. `device` must outlive the workspace.
  explicit Workspace(Device& device = host_device()) : Workspace(std::make_shared<Arena>(device)) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { arena_->withdraw(demand_); }

  Arena& arena() const { return *arena_; }
  const std::shared_ptr<Arena>& shared_arena() const { return arena_; }
  /// Returns `size` bytes of the arena, valid during this turn and as long as the arena has the
  /// same version. Enlarges the arena if necessary. Throws as Device::allocate() does.
  std::byte* values(size_t size) { return arena_->require(demand_, size); }
  /// Returns at least `size` bytes for results. Plans keep addresses, so a block that is too small
  /// stays allocated, and a larger one is added.
  std::byte* results(size_t size);
  void reserve(const WorkspaceBytes& bytes);
  /// The bytes that the largest plan needs.
  WorkspaceBytes largest() const {
    return {demand_, results_.empty() ? 0 : results_.back().size()};
  }
  /// The demand on the arena, and the bytes of all blocks for results. Untouched pages of host
  /// memory are counted although they cost nothing.
  WorkspaceBytes bytes() const;

 private:
  std::shared_ptr<Arena> arena_;
  size_t demand_ = 0;
  std::vector<Memory> results_;  ///< each larger than the one before it
};

}  // namespace veery

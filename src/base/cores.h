// cores.h: which processors this process may use, and how many threads are worth having.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace veery {

/// Where the description of the machine is read from; tests have one of their own.
struct SystemFiles {
  std::string topology = "/sys/devices/system/cpu";
  std::string cgroups = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

/// `processors` in the order in which threads should take them: one of each physical core first,
/// then those that share a core with one before.
struct Cores {
  std::vector<int> order;
  int physical = 0;  ///< physical cores among them
};
Cores sort_by_core(const std::vector<int>& processors, const SystemFiles& files = {});

/// Processors worth of time that control groups (v1 and v2, this process's and those above it)
/// grant, e.g. 1.5; none: they do not limit it.
std::optional<double> cgroup_quota(const SystemFiles& files = {});

/// Processors that this process may be scheduled on, ascending; empty: not known.
std::vector<int> allowed_processors();

/// The most threads that a user may ask for: a few times the processors, since more of them only
/// cost memory and time. At least 64.
int most_threads();

/// Threads that are worth having: the physical cores that this process may use (affinity), no more
/// than its quota of time. At least 1.
int available_cores(const SystemFiles& files = {});

}  // namespace veery

// cores.h: the CPUs that this process may use, and the number of threads that pays off.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace veery {

/// Paths that describe the machine; tests substitute their own.
struct SystemFiles {
  std::string topology = "/sys/devices/system/cpu";
  std::string cgroups = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

/// `processors` in the order in which threads should be pinned: one logical CPU of each physical
/// core first, then the hyper-threads of cores that are already in use.
struct Cores {
  std::vector<int> order;
  int physical = 0;  ///< number of distinct physical cores
};
Cores sort_by_core(const std::vector<int>& processors, const SystemFiles& files = {});

/// Returns the CPU quota of this process's control groups and their ancestors (cgroup v1 and v2),
/// in CPUs, e.g. 1.5; nullopt if there is no limit.
std::optional<double> cgroup_quota(const SystemFiles& files = {});

/// Returns the logical CPUs in this process's affinity mask, ascending; empty if unknown.
std::vector<int> allowed_processors();

/// Returns the largest thread count that a user may request: four times the logical CPUs, at least
/// 64. More threads only cost memory and time.
int most_threads();

/// Returns the default thread count: the physical cores in the affinity mask, limited by the CPU
/// quota; at least 1.
int available_cores(const SystemFiles& files = {});

}  // namespace veery

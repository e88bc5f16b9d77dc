#include "base/cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace veery {
namespace {

std::optional<double> read_number(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

void lower(std::optional<double>& least, std::optional<double> value) {
  if (value && (!least || *value < *least)) least = value;
}

// Parses cpu.max, e.g. "max 100000" (no limit) or "150000 100000" (quota and period).
std::optional<double> quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_v1(const std::string& folder) {
  const auto quota = read_number(folder + "/cpu.cfs_quota_us");
  const auto period = read_number(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

// Returns the group and all its ancestors, including the root: "/a/b", "/a", "".
std::vector<std::string> with_parents(std::string group) {
  std::vector<std::string> all;
  while (!group.empty() && group.back() == '/') group.pop_back();
  for (; !group.empty(); group.resize(group.find_last_of('/'))) {
    all.push_back(group);
    if (group.find('/') == std::string::npos) break;
  }
  all.emplace_back();
  return all;
}

// Returns the path of the cpu controller's group from a line of /proc/self/cgroup such as
// "4:cpu,cpuacct:/a/b"; nullopt if the line belongs to other controllers.
std::optional<std::string> group_in(const std::string& line, bool& unified) {
  const size_t first = line.find(':');
  const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  std::istringstream names(line.substr(first + 1, second - first - 1));
  unified = second == first + 1;
  bool ours = unified;
  for (std::string name; std::getline(names, name, ',');) ours = ours || name == "cpu";
  return ours ? std::optional(line.substr(second + 1)) : std::nullopt;
}

}  // namespace

std::optional<double> cgroup_quota(const SystemFiles& files) {
  std::optional<double> least;
  std::ifstream membership(files.membership);
  std::vector<std::pair<std::string, bool>> groups = {{"", true}, {"", false}};
  for (std::string line; std::getline(membership, line);) {
    bool unified = false;
    if (const auto group = group_in(line, unified)) groups.emplace_back(*group, unified);
  }
  // Inside a container the group's path can be one that only exists outside; the container's own
  // limits are then at the root.
  for (const auto& [group, unified] : groups)
    for (const std::string& each : with_parents(group)) {
      if (unified) lower(least, quota_v2(files.cgroups + each));
      for (const char* controller : {"/cpu", "/cpu,cpuacct"})
        if (!unified) lower(least, quota_v1(files.cgroups + controller + each));
    }
  return least;
}

Cores sort_by_core(const std::vector<int>& processors, const SystemFiles& files) {
  Cores cores;
  std::vector<int> later;
  std::set<std::pair<double, double>> seen;
  for (const int processor : processors) {
    const std::string folder = files.topology + "/cpu" + std::to_string(processor) + "/topology/";
    const auto package = read_number(folder + "physical_package_id");
    const auto core = read_number(folder + "core_id");
    if (package && core && !seen.insert({*package, *core}).second)
      later.push_back(processor);
    else
      cores.order.push_back(processor);
  }
  cores.physical = static_cast<int>(cores.order.size());
  cores.order.insert(cores.order.end(), later.begin(), later.end());
  return cores;
}

std::vector<int> allowed_processors() {
  std::vector<int> processors;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) processors.push_back(i);
#endif
  return processors;
}

int most_threads() {
  return std::max(64, 4 * static_cast<int>(std::thread::hardware_concurrency()));
}

int available_cores(const SystemFiles& files) {
  int cores = sort_by_core(allowed_processors(), files).physical;
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  if (const auto quota = cgroup_quota(files))
    cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  return std::max(1, cores);
}

}  // namespace veery

#include "base/cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace veery {
namespace {

// A temporary folder that imitates /sys and /proc of a machine.
class FakeSystem : public ::testing::Test {
 protected:
  FakeSystem()
      : root_(std::filesystem::temp_directory_path() /
              ("veery-cores-" + std::to_string(getpid()))) {
    files_ = {root_ / "cpu", root_ / "cgroup", root_ / "membership"};
  }
  ~FakeSystem() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void processor(int id, int package, int core) const {
    const std::string folder = "cpu/cpu" + std::to_string(id) + "/topology/";
    write(folder + "physical_package_id", std::to_string(package) + "\n");
    write(folder + "core_id", std::to_string(core) + "\n");
  }

  std::filesystem::path root_;
  SystemFiles files_;
};

TEST_F(FakeSystem, OrdersOneCpuOfEachCoreFirst) {
  for (int id = 0; id < 8; ++id) processor(id, id / 4, id % 4 / 2);  // hyper-threads are adjacent
  const Cores all = sort_by_core({0, 1, 2, 3, 4, 5, 6, 7}, files_);
  EXPECT_EQ(all.physical, 4);
  EXPECT_EQ(all.order, (std::vector{0, 2, 4, 6, 1, 3, 5, 7}));
  const Cores some = sort_by_core({1, 3, 2}, files_);
  EXPECT_EQ(some.physical, 2);
  EXPECT_EQ(some.order, (std::vector{1, 3, 2}));
}

TEST_F(FakeSystem, CountsLogicalCpusWithoutTopology) {
  EXPECT_EQ(sort_by_core({0, 1, 2}, files_).physical, 3);
  EXPECT_EQ(cgroup_quota(files_), std::nullopt);
}

TEST_F(FakeSystem, TakesTheSmallestQuotaOfTheGroupAndItsAncestors) {
  write("membership", "0::/pod/box\n");
  write("cgroup/pod/box/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_quota(files_), std::nullopt);
  write("cgroup/pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_quota(files_), 2.5);
  write("cgroup/cpu.max", "150000 100000\n");  // as seen from inside a container
  EXPECT_EQ(cgroup_quota(files_), 1.5);
}

TEST_F(FakeSystem, ReadsCgroupV1Quotas) {
  write("membership", "4:memory:/pod\n3:cpu,cpuacct:/pod\n");
  write("cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota(files_), std::nullopt);
  write("cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(cgroup_quota(files_), 0.5);
}

TEST_F(FakeSystem, AvailableCoresDoNotExceedTheQuota) {
  const auto allowed = static_cast<int>(std::max<size_t>(1, allowed_processors().size()));
  // Without topology each logical CPU counts as a core.
  EXPECT_EQ(available_cores(files_), allowed);
  write("membership", "0::/box\n");
  for (const auto& [quota, cores] :
       {std::pair("50000", 1), {"100000", 1}, {"150000", 2}, {"max", 1000}}) {
    write("cgroup/box/cpu.max", std::string(quota) + " 100000\n");
    EXPECT_EQ(available_cores(files_), std::min(allowed, cores)) << quota;
  }
}

TEST(AvailableCores, AreBetweenOneAndTheLogicalCpus) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(static_cast<size_t>(available_cores()),
            std::max<size_t>(1, allowed_processors().size()));
}

}  // namespace
}  // namespace veery

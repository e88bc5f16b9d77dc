// Memory that several plans share: the contents that one plan leaves do not affect another plan.
#include "plan/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "array/array.h"
#include "base/error.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "plan/plan.h"
#include "plan/run_inputs.h"

namespace veery {
namespace {

TEST(Workspace, ResultsStayWhereTheyAre) {
  Workspace workspace;
  std::byte* small = workspace.results(1000);
  EXPECT_EQ(workspace.results(500), small);
  EXPECT_EQ(workspace.bytes(), (WorkspaceBytes{0, 1000}));
  std::byte* large = workspace.results(5000);
  EXPECT_NE(large, small);
  std::fill_n(small, 1000, std::byte{1});
  EXPECT_EQ(workspace.results(2000), large);
  EXPECT_EQ(workspace.bytes(), (WorkspaceBytes{0, 6000}));
  EXPECT_EQ(workspace.largest(), (WorkspaceBytes{0, 5000}));
}

TEST(Workspace, AnArenaHasTheSizeOfTheLargestDemand) {
  const auto arena = std::make_shared<Arena>(host_device());
  Workspace one(arena);
  std::byte* const block = one.values(3000);
  const uint64_t version = arena->version();
  {
    Workspace two(arena);
    EXPECT_EQ(two.values(2000), block);
    EXPECT_EQ(arena->version(), version);
    two.values(70000);
    EXPECT_NE(arena->version(), version);
    EXPECT_EQ(one.values(10), two.values(10));
    EXPECT_EQ(arena->bytes(), 70000U);
    EXPECT_EQ(one.bytes().values, 3000U);
    EXPECT_EQ(two.bytes().values, 70000U);
  }
  EXPECT_EQ(arena->bytes(), 3000U);
  {
    const Workspace three(arena);  // demands nothing
  }
  EXPECT_EQ(arena->bytes(), 3000U);
}

/// Has memory for blocks up to a size.
class SmallDevice : public HostDevice {
 public:
  Memory reserve(size_t size) override {
    if (size > most) throw Error(ErrorKind::kLimit, "{} bytes are too many", size);
    return HostDevice::reserve(size);
  }
  size_t most = 1000;
};

TEST(Workspace, AFailedDemandLeavesTheOthers) {
  SmallDevice device;
  const auto arena = std::make_shared<Arena>(device);
  Workspace one(arena), two(arena);
  one.values(900);
  EXPECT_THROW(two.values(1001), Error);
  EXPECT_EQ(two.bytes().values, 0U);
  EXPECT_NE(one.values(900), nullptr);
  EXPECT_EQ(arena->bytes(), 900U);
}

/// Graphs of parameters whose plans run in one workspace.
class Shared : public ::testing::Test {
 protected:
  static constexpr int kCols = 32;

  Shared() : block_(test::usual_inputs(), kRows) {
    block_.add_span(0, kRows, 0);
    const Operand& x = params_.add("x", {kRows, kCols});
    for (int64_t r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c) x.row<float>(r)[c] = static_cast<float>(r * kCols + c);
  }

  Array x() { return {graph_, graph_.leaf(op::kParam, "x", {Symbol::kRows, kCols})}; }
  Array constant(float value) { return veery::constant(graph_, {1, kCols}, value); }
  std::unique_ptr<Plan> plan(const Array& root) {
    return std::make_unique<Plan>(
        graph_, std::vector<Value>{root.value()},
        Binding{.places = {{backend_.get(), &params_, &workspace_}}, .block = &block_},
        PlanOptions{.rows = kRows, .fuse = false});
  }
  static void expect(Plan& plan, float factor) {
    plan.run();
    for (int64_t r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c)
        ASSERT_EQ(plan.root(0).row<float>(r)[c], static_cast<float>(r * kCols + c) * factor);
  }
  static std::vector<float> values(Plan& plan) {
    plan.run();
    std::vector<float> all;
    for (int64_t r = 0; r < kRows; ++r)
      all.insert(all.end(), plan.root(0).row<float>(r), plan.root(0).row<float>(r) + kCols);
    return all;
  }

  static constexpr int kRows = 5;
  Graph graph_;
  ParamStore params_;
  RunBlock block_;
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = make_cpu_backend(pool_, Target::kReference);
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>(host_device());
  Workspace workspace_{arena_};  // must outlive the plans
};

TEST_F(Shared, PlansTakeTheSameMemory) {
  const auto large = plan(rms_norm(scale(x(), 3) + scale(x(), 4), constant(1), 1e-5F));
  const auto small = plan(scale(scale(x(), 4), 0.5F));
  const auto again = plan(scale(scale(x(), 10), 0.5F));
  EXPECT_GT(large->arena_bytes(), small->arena_bytes());
  EXPECT_EQ(small->arena(), large->arena());
  EXPECT_EQ(again->arena(), large->arena());
  const std::vector<float> first = values(*large);
  for (int round = 0; round < 2; ++round) {
    expect(*small, 2);
    expect(*again, 5);
    EXPECT_EQ(values(*large), first);
  }
}

TEST_F(Shared, PlansOfAReplacedArenaAreRefused) {
  const auto small = plan(scale(scale(x(), 4), 0.5F));
  expect(*small, 2);
  Workspace other(arena_);
  other.values(1 << 20);
  EXPECT_FALSE(small->is_current());
  EXPECT_THROW(small->run(), Error);
  EXPECT_EQ(small->root(0).row<float>(1)[0], 2 * kCols) << "its results stay";
  const auto again = plan(scale(scale(x(), 4), 0.5F));
  EXPECT_TRUE(again->is_current());
  expect(*again, 2);
}

TEST_F(Shared, ResultsOutliveTheRunsOfOtherWorkspaces) {
  const auto own = plan(scale(scale(x(), 4), 0.5F));
  Workspace other(arena_);
  Plan another(graph_, std::vector<Value>{scale(scale(x(), 6), 0.5F).value()},
               Binding{.places = {{backend_.get(), &params_, &other}}, .block = &block_},
               PlanOptions{.rows = kRows, .fuse = false});
  const std::vector<float> before = values(*own);
  another.run();
  std::vector<float> after;
  for (int64_t r = 0; r < kRows; ++r)
    after.insert(after.end(), own->root(0).row<float>(r), own->root(0).row<float>(r) + kCols);
  EXPECT_EQ(after, before);
  EXPECT_EQ(another.root(0).row<float>(1)[0], 3 * kCols);
}

TEST_F(Shared, ConstantsOutliveTheRunsOfOthers) {
  const auto two = plan(scale(rms_norm(x(), constant(2), 1e-5F), 0.5F));
  const auto one = plan(rms_norm(x(), constant(1), 1e-5F));
  const std::vector<float> first = values(*one);
  EXPECT_GT(first.back(), 0.5F);
  EXPECT_EQ(values(*two), first);
  EXPECT_EQ(values(*one), first);
  EXPECT_EQ(values(*two), first);
}

}  // namespace
}  // namespace veery

// Memory that several plans share: the contents that one plan leaves do not affect another plan.
#include "plan/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "array/array.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "plan/plan.h"
#include "plan/run_inputs.h"

namespace veery {
namespace {

TEST(Workspace, BlocksStayWhereTheyAre) {
  Workspace workspace;
  std::byte* small = workspace.block(1000);
  EXPECT_EQ(workspace.block(500), small);
  EXPECT_EQ(workspace.bytes(), 1000U);
  std::byte* large = workspace.block(5000);
  EXPECT_NE(large, small);
  std::fill_n(small, 1000, std::byte{1});
  EXPECT_EQ(workspace.block(2000), large);
  EXPECT_EQ(workspace.bytes(), 6000U);
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
  Workspace workspace_;  // must outlive the plans
};

TEST_F(Shared, PlansTakeTheSameMemory) {
  const auto small = plan(scale(x(), 2));
  const auto large = plan(scale(x(), 3) + scale(x(), 4));
  const auto again = plan(scale(x(), 5));
  EXPECT_GT(large->arena_bytes(), small->arena_bytes());
  EXPECT_EQ(again->arena(), large->arena());
  for (int round = 0; round < 2; ++round) {
    expect(*large, 7);
    expect(*small, 2);
    expect(*again, 5);
  }
}

TEST_F(Shared, ConstantsOutliveTheRunsOfOthers) {
  const auto one = plan(rms_norm(x(), constant(1), 1e-5F));
  const auto two = plan(scale(rms_norm(x(), constant(2), 1e-5F), 0.5F));
  const std::vector<float> first = values(*one);
  EXPECT_GT(first.back(), 0.5F);
  EXPECT_EQ(values(*two), first);
  EXPECT_EQ(values(*one), first);
  EXPECT_EQ(values(*two), first);
}

}  // namespace
}  // namespace veery

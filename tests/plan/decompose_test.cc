// The decomposition of an op gives the results of its reference kernel.
#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "plan/plan.h"
#include "plan/run_inputs.h"

namespace veery {
namespace {

constexpr int kRows = 5;

class Decompose : public testing::Test {
 protected:
  Decompose() : block(test::usual_inputs(), kRows), pool(2) {
    block.add_span(0, kRows, 3);
    block.shape.outputs = kRows;
    block.shape.sequences = 1;
  }
  Value param(const std::string& name, int64_t rows, int64_t cols) {
    const Operand& w = params.add(name, {rows, cols});
    for (int64_t r = 0; r < rows; ++r)
      for (int32_t c = 0; c < w.cols; ++c) w.row<float>(r)[c] = random.normal();
    return graph.leaf(op::kParam, name, {rows == kRows ? Dim(Symbol::kRows) : Dim(rows), cols});
  }
  Operand run(Value value) {
    plans.push_back(std::make_unique<Plan>(
        graph, std::vector<Value>{value}, Binding{{{backend.get(), &params}}, states.get(), &block},
        PlanOptions{.rows = kRows, .outputs = kRows, .fuse = false}));
    plans.back()->run();
    return plans.back()->root(0);
  }
  void expect_same(NodeId node, float tolerance = 1e-5F) {
    const Node made = graph[node];
    ASSERT_NE(made.op->decompose, nullptr);
    const Operand whole = run(node);
    const Operand parts = run(made.op->decompose(graph, made));
    ASSERT_EQ(whole.cols, parts.cols);
    for (int64_t r = 0; r < kRows; ++r)
      for (int32_t c = 0; c < whole.cols; ++c)
        if (whole.dtype == DType::kI32)
          EXPECT_EQ(whole.row<int32_t>(r)[c], parts.row<int32_t>(r)[c]);
        else
          EXPECT_NEAR(whole.row<float>(r)[c], parts.row<float>(r)[c], tolerance);
  }

  Graph graph;
  ParamStore params;
  std::unique_ptr<StateStore> states;
  RunBlock block;
  ThreadPool pool;
  std::unique_ptr<Backend> backend = make_cpu_backend(pool, Target::kReference);
  Random random{5};
  std::vector<std::unique_ptr<Plan>> plans;
};

TEST_F(Decompose, FusedLinear) {
  const Value x = param("x", kRows, 8), norm = param("norm", 1, 8);
  const Value a = param("a", 6, 8), b = param("b", 6, 8), bias = param("bias", 1, 6);
  expect_same(graph.add(op::kFusedLinear,
                        inputs({x, norm, param("r12", kRows, 12), a, b, {}, bias, {}, {}}),
                        FusedLinearAttr{.weights = 2, .eps = 1e-5F, .scale = 0.5F}));
  expect_same(graph.add(op::kFusedLinear,
                        inputs({x, {}, param("r6", kRows, 6), a, b, {}, bias, bias}),
                        FusedLinearAttr{.weights = 2, .gate = Activation::kSilu}));
  expect_same(graph.add(op::kLinearArgmax, inputs({x, norm, {}, a, {}, {}, bias}),
                        FusedLinearAttr{.eps = 1e-5F}));
}

TEST_F(Decompose, RmsNormAdd) {
  expect_same(graph.add(op::kRmsNormAdd,
                        inputs({param("x", kRows, 8), param("w", 1, 4), param("r", kRows, 8)}),
                        NormAttr{1e-5F, 2}));
}

TEST_F(Decompose, QkvRope) {
  const Value angles = graph.add(
      op::kRopeAngles,
      inputs({graph.leaf(op::kInput, "positions", {Symbol::kRows, 1}, InputAttr{DType::kI32})}),
      AnglesAttr{.dims = 4});
  const auto state = [&](const char* name, bool keys) {
    return Value(graph.leaf(op::kState, name, {0, 12},
                            StateAttr{keys ? StateKind::kKeys : StateKind::kValues, 2, 0}));
  };
  const Value k = state("k", true), v = state("v", false);
  states = std::make_unique<StateStore>(
      graph, StateOptions{.keys = DType::kF32, .values = DType::kF32, .context = 16});
  std::vector<int32_t> pages{0};
  const PageTable table{pages.data(), 1};
  block.shape.tables = &table;
  const NodeId projected =
      graph.add(op::kLinear, inputs({param("x", kRows, 8), param("w", 48, 8)}), LinearAttr{});
  expect_same(graph.add(op::kQkvRope,
                        inputs({projected, angles, k, v, param("qn", 1, 6), param("kn", 1, 6)}),
                        QkvRopeAttr{.heads = 4, .kv_heads = 2, .head_dim = 6, .dims = 4}));
}

}  // namespace
}  // namespace veery

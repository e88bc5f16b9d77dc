// The graph: shape inference, nodes needed by roots, and verification.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "graph/ops/ops.h"

namespace veery {
namespace {

std::string message_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class GraphTest : public testing::Test {
 protected:
  NodeId param(Shape shape) { return graph.leaf(op::kParam, "w", shape, ParamAttr{}); }

  Graph graph;
  const NodeId x = param({Symbol::kRows, 8});
};

TEST_F(GraphTest, InfersShapes) {
  const NodeId y =
      graph.add(op::kFusedLinear, inputs({x, kNoNode, kNoNode, param({5, 8}), param({3, 8})}),
                FusedLinearAttr{.weights = 2});
  EXPECT_EQ(graph[y].shape(), (Shape{Symbol::kRows, 8}));
  const NodeId rows =
      graph.leaf(op::kInput, "output_rows", {Symbol::kOutputs, 1}, InputAttr{DType::kI32});
  EXPECT_EQ(graph[graph.add(op::kSelectRows, inputs({x, rows}))].shape(),
            (Shape{Symbol::kOutputs, 8}));
  EXPECT_EQ(graph[graph.add(op::kColumns, inputs({x}), ColumnsAttr{2, 3})].shape(),
            (Shape{Symbol::kRows, 3}));
  EXPECT_EQ(graph[graph.add(op::kConcat, inputs({x, y}))].shape(), (Shape{Symbol::kRows, 16}));
  const NodeId best = graph.add(op::kArgmax, inputs({x}));
  EXPECT_EQ(graph[best].shape(), (Shape{Symbol::kRows, 1}));
  EXPECT_EQ(graph[best].outputs.types[0].dtype, DType::kI32);
  EXPECT_EQ(graph[y].outputs.types[0].dtype, DType::kF32);
}

TEST_F(GraphTest, ErrorsNameTheShapes) {
  const NodeId w = param({5, 7});
  const std::string text = message_of(
      [&] {
        graph.add(op::kLinear, inputs({x, w}), LinearAttr{});
      },
      ErrorKind::kInput);
  EXPECT_NE(text.find("linear"), std::string::npos) << text;
  EXPECT_NE(text.find("x [rows, 8], weight [5, 7]"), std::string::npos) << text;
  message_of([&] { graph.add(op::kAdd, inputs({x, w})); }, ErrorKind::kInput);
  message_of([&] { graph.add(op::kColumns, inputs({x}), ColumnsAttr{6, 3}); }, ErrorKind::kInput);
  EXPECT_NE(
      message_of([&] { graph.add(op::kScale, inputs({x})); }, ErrorKind::kInput).find("parameters"),
      std::string::npos);
}

TEST_F(GraphTest, RootsNeedTheirInputs) {
  const NodeId a = graph.add(op::kScale, inputs({x}), ScaleAttr{2});
  const NodeId unused = graph.add(op::kScale, inputs({x}), ScaleAttr{3});
  const NodeId sum = graph.add(op::kAdd, inputs({a, a}));
  const std::vector<bool> needed = needed_for(graph, {Value(sum)});
  EXPECT_TRUE(needed[static_cast<size_t>(x)] && needed[static_cast<size_t>(a)]);
  EXPECT_FALSE(needed[static_cast<size_t>(unused)]);
  const std::vector<int> uses = use_counts(graph, needed);
  EXPECT_EQ(uses[static_cast<size_t>(a)], 2);
  EXPECT_EQ(uses[static_cast<size_t>(x)], 1);  // unneeded nodes do not count as uses
}

TEST_F(GraphTest, VerifyDetectsInvalidGraphs) {
  const NodeId a = graph.add(op::kScale, inputs({x}), ScaleAttr{2});
  graph.add(op::kScale, inputs({a}), ScaleAttr{2});
  EXPECT_NO_THROW(verify(graph));
  Graph broken = graph;
  broken[a].in[0] = a + 1;
  EXPECT_NE(message_of([&] { verify(broken); }, ErrorKind::kBug).find("not before it"),
            std::string::npos);
  broken = graph;
  broken[a].in[0] = kNoNode;
  message_of([&] { verify(broken); }, ErrorKind::kBug);
  broken = graph;
  broken[a].outputs.types[0].shape = {Symbol::kRows, 9};
  message_of([&] { verify(broken); }, ErrorKind::kBug);
}

TEST_F(GraphTest, CountsWorkByRowsAndOutputs) {
  const NodeId y = graph.add(op::kLinear, inputs({x, param({5, 8})}), LinearAttr{});
  EXPECT_EQ(cost_of(graph, graph[y], {.rows = 3}).flops, 2.0 * 3 * 5 * 8);
  EXPECT_EQ(cost_of(graph, graph[x], {.rows = 3}).flops, 0);
}

}  // namespace
}  // namespace veery

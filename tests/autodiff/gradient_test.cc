// Reverse-mode differentiation of graphs: the nodes that it adds and its errors. Numerical results
// are tested in tests/plan/gradient_test.cc, where plans can run.
#include "autodiff/gradient.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

class GradientGraph : public testing::Test {
 protected:
  Array param(const std::string& name, Shape shape) {
    return {graph, graph.leaf(op::kParam, name, shape, ParamAttr{})};
  }
  Array loss_of(Array logits) {
    return cross_entropy(logits, {graph, graph.leaf(op::kInput, "targets", {Symbol::kRows, 1},
                                                    InputAttr{DType::kI32})});
  }
  Array cache_of_cells() {
    return {graph, graph.leaf(op::kState, "cells", {4, 2}, StateAttr{StateKind::kBlock})};
  }
  int64_t count(Op op) const { return std::ranges::count(graph.nodes(), op, &Node::op); }
  std::string refusal(Array loss, const std::vector<Array>& wrt, ErrorKind kind) {
    try {
      gradient(loss, wrt);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  Graph graph;
  const Array x = param("x", {Symbol::kRows, 8});
  const Array w = param("w", {5, 8});
};

TEST_F(GradientGraph, HasTheShapeOfItsInput) {
  const Array norm = param("norm", {1, 8});
  const Array bias = param("bias", {1, 5});
  const std::vector<Array> wrt = {x, w, norm, bias};
  const Array loss = loss_of(linear(rms_norm(x, norm, 1e-5F), w, bias));
  const std::vector<Array> gradients = gradient(loss, wrt);
  ASSERT_EQ(gradients.size(), wrt.size());
  for (size_t i = 0; i < wrt.size(); ++i) EXPECT_EQ(gradients[i].shape(), wrt[i].shape());
  EXPECT_NO_THROW(verify(graph));
}

TEST_F(GradientGraph, UnusedPathsGetNoGradient) {
  gradient(loss_of(linear(x, w)), {w});
  EXPECT_EQ(count(op::kLinearBackW), 1);
  EXPECT_EQ(count(op::kLinearBackX), 0);
}

TEST_F(GradientGraph, GradientsOfAllUsesAreSummed) {
  gradient(loss_of(linear(x, w) + linear(x, w)), {w});
  EXPECT_EQ(count(op::kLinearBackW), 2);
  EXPECT_EQ(count(op::kAdd), 2);  // sum of the products, and sum of the two gradients
}

TEST_F(GradientGraph, ErrorsNameOpsWithoutARule) {
  const Array cache(graph, graph.leaf(op::kState, "cache", {0, 8}, StateAttr{}));
  const Array keys = cache_write(x, cache);
  const Array attended = attend(x, keys, keys, {.heads = 1, .kv_heads = 1});
  const std::string error = refusal(loss_of(attended), {x}, ErrorKind::kUnsupported);
  EXPECT_NE(error.find("attend"), std::string::npos) << error;
  EXPECT_NE(error.find("state"), std::string::npos) << error;
  const std::string state =
      refusal(loss_of(slstm(x, param("r", {2, 8}), param("b", {1, 8}), cache_of_cells(), 1)), {x},
              ErrorKind::kUnsupported);
  EXPECT_NE(state.find("slstm"), std::string::npos) << state;
  EXPECT_THROW(jvp(attended, {x}, {x}), Error);
  EXPECT_THROW(vjp(argmax(x), argmax(x), {x}), Error);
  EXPECT_THROW(jvp(argmax(x), {x}, {x}), Error);
}

// The choice of positions and of experts is constant: no rule is needed, and what has no other
// effect has gradient zero.
TEST_F(GradientGraph, IntegersAreConstants) {
  const Array index = param("index", {Symbol::kRows, 8}),
              weights = param("weights", {Symbol::kRows, 2});
  const Array chosen =
      choose_positions(index, weights, columns(index, 0, 4), {.heads = 2, .used = 2});
  const Array y = attend(x, x, x, {.heads = 1, .kv_heads = 1, .shared = 8}, {}, chosen);
  const std::vector<Array> gradients = gradient(loss_of(y), {x, index});
  EXPECT_EQ(gradients[1].node().op, op::kScale);
  EXPECT_EQ(gradients[1].node().as<ScaleAttr>().factor, 0);
  EXPECT_EQ(gradients[1].shape(), index.shape());
  const Array tangent = jvp(y, {index}, {index});
  EXPECT_EQ(tangent.node().as<ScaleAttr>().factor, 0);
  EXPECT_EQ(jvp(y, {x, index}, {x, index}).node().op, op::kAttendTangent);
}

TEST_F(GradientGraph, LossMustBeAScalarThatDependsOnTheInputs) {
  EXPECT_NE(refusal(linear(x, w), {w}, ErrorKind::kInput).find("[rows, 5]"), std::string::npos);
  const Array other = param("other", {5, 8});
  EXPECT_NE(refusal(loss_of(linear(x, w)), {other}, ErrorKind::kInput).find("other"),
            std::string::npos);
}

}  // namespace
}  // namespace veery

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
  const Array gates = route(x, {.used = 2});
  EXPECT_NE(refusal(loss_of(gates), {x}, ErrorKind::kUnsupported).find("route"), std::string::npos);
  const Array sinks = param("sinks", {1, 2});
  const Array attended = attend(x, x, x, {.heads = 2, .kv_heads = 2}, sinks);
  EXPECT_NE(refusal(loss_of(attended), {x}, ErrorKind::kUnsupported).find("sinks"),
            std::string::npos);
}

TEST_F(GradientGraph, LossMustBeAScalarThatDependsOnTheInputs) {
  EXPECT_NE(refusal(linear(x, w), {w}, ErrorKind::kInput).find("[rows, 5]"), std::string::npos);
  const Array other = param("other", {5, 8});
  EXPECT_NE(refusal(loss_of(linear(x, w)), {other}, ErrorKind::kInput).find("other"),
            std::string::npos);
}

}  // namespace
}  // namespace veery

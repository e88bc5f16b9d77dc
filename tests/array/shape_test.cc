// Array functions: shape inference, errors for shapes that do not match, and graph verification.
#include <gtest/gtest.h>

#include "array/array.h"
#include "base/error.h"

namespace veery {
namespace {

class Shapes : public ::testing::Test {
 protected:
  Array param(int64_t rows, int64_t cols) {
    return {graph, graph.leaf(op::kParam, "w", {rows, cols})};
  }
  Array stack(int64_t count, int64_t rows, int64_t cols) {
    return {graph, graph.leaf(op::kParam, "w", {count, rows, cols})};
  }
  Array slot() {
    return {graph, graph.leaf(op::kInput, "tokens", {Symbol::kRows, 1}, InputAttr{DType::kI32})};
  }
  template <typename F>
  void refuses(F make, const std::string& word) {
    try {
      make();
      ADD_FAILURE() << "accepted; expected a message with " << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
  Graph graph;
};

TEST_F(Shapes, AreInferredFromInputs) {
  const Array x = embed(slot(), param(50, 12));
  EXPECT_EQ(x.shape(), (Shape{Symbol::kRows, 12}));
  EXPECT_EQ(linear(x, param(7, 12)).shape(), (Shape{Symbol::kRows, 7}));
  EXPECT_EQ(columns(x, 3, 4).shape(), (Shape{Symbol::kRows, 4}));
  EXPECT_EQ(argmax(x).shape(), (Shape{Symbol::kRows, 1}));
  EXPECT_EQ(graph[argmax(x).id()].outputs.types[0].dtype, DType::kI32);
  EXPECT_NO_THROW(verify(graph));
}

TEST_F(Shapes, ErrorsNameTheShapes) {
  const Array x = embed(slot(), param(50, 12));
  refuses([&] { linear(x, param(7, 13)); }, "[7, 13]");
  refuses([&] { linear(x, param(7, 12), param(1, 8)); }, "bias");
  refuses([&] { x + param(3, 12); }, "[3, 12]");
  refuses([&] { rms_norm(x, param(1, 5), 1e-6F); }, "weight");
  refuses([&] { rms_norm(x, param(1, 2), 1e-6F, 5); }, "groups");
  refuses([&] { columns(x, 10, 4); }, "outside");
  const Array angles = rope_angles(slot(), {.dims = 6});
  refuses([&] { rope(x, angles, {.heads = 5, .dims = 6}); }, "heads");
  refuses([&] { rope(x, angles, {.heads = 3, .dims = 6}); }, "rotated");
  refuses([&] { attend(x, x, x, {.heads = 4, .kv_heads = 3}); }, "multiple");
  refuses([&] { rope_angles(slot(), {.dims = 6}, param(1, 2)); }, "divisor");
  refuses([&] { position_scale(param(2, 4), param(2, 2), {}); }, "one position a row");
  refuses([&] { position_scale(slot(), slot(), {.period = 0}); }, "period");
  const Array gates = columns(x, 0, 2), up = stack(2, 5, 12), down = stack(2, 7, 5);
  const MoeAttr two{.experts = 2};
  EXPECT_EQ(moe(x, gates, {{}, up, down, {}, {}, {}}, two).shape(), (Shape{Symbol::kRows, 7}));
  refuses([&] { moe(x, gates, {stack(2, 6, 12), up, down, {}, {}, {}}, two); }, "shape of up");
  refuses([&] { moe(x, gates, {{}, up, down, {}, {}, {}}, {.experts = 2, .limit = 7}); }, "limit");
}

TEST_F(Shapes, VerifierRejectsAnInvalidGraph) {
  const Array x = embed(slot(), param(50, 12));
  const Array y = linear(x, param(7, 12));
  graph[y.id()].outputs.types[0].shape = {Symbol::kRows, 8};
  EXPECT_THROW(verify(graph), Error);
  graph[y.id()].outputs.types[0].shape = {Symbol::kRows, 7};
  EXPECT_NO_THROW(verify(graph));
  graph[x.id()].in[0] = y.id();  // a reference to a later node
  EXPECT_THROW(verify(graph), Error);
}

TEST_F(Shapes, NeededNodesAndUsesDependOnRoots) {
  const Array x = embed(slot(), param(50, 12));
  const Array unused = activate(x, Activation::kSilu);
  const Array y = x * x;
  const auto needed = needed_for(graph, {y.id()});
  EXPECT_TRUE(needed[static_cast<size_t>(x.id())]);
  EXPECT_FALSE(needed[static_cast<size_t>(unused.id())]);
  EXPECT_EQ(use_counts(graph, needed)[static_cast<size_t>(x.id())], 2);
}

}  // namespace
}  // namespace veery

// Fusion: each rule fuses its pattern, but not if another node needs an intermediate value.
#include "plan/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "array/array.h"

namespace veery {
namespace {

constexpr int64_t kCols = 16;

class Fusion : public testing::Test {
 protected:
  Array leaf(Op op, const std::string& name, Shape shape, Attr attr = {}) {
    return {graph, graph.leaf(op, name, shape, attr)};
  }
  Array weight(const std::string& name, int64_t rows = kCols, int64_t cols = kCols) {
    return leaf(op::kParam, name, {rows, cols}, ParamAttr{});
  }
  Array input() { return leaf(op::kParam, "x", {Symbol::kRows, kCols}, ParamAttr{}); }
  Array index(const std::string& name) {
    return leaf(op::kInput, name, {Symbol::kRows, 1}, InputAttr{DType::kI32});
  }
  /// Fuses the graph for these roots and expects that their shapes and order stay.
  void fuse_for(const std::vector<Array>& wanted) {
    roots.clear();
    for (const Array& array : wanted) roots.push_back(array.value());
    fused = fuse(graph, roots);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(root(i).shape(), wanted[i].shape());
  }
  const Node& root(size_t i = 0) const { return fused[roots[i]]; }
  const Node& input_of(const Node& node, size_t i) const { return fused[node.in[i]]; }
  int64_t count(Op op) const {
    const std::vector<bool> needed = needed_for(fused, roots);
    int64_t nodes = 0;
    for (NodeId id = 0; id < fused.size(); ++id)
      nodes += needed[static_cast<size_t>(id)] && fused[id].op == op;
    return nodes;
  }

  Graph graph, fused;
  std::vector<Value> roots;
};

TEST_F(Fusion, AGateAndItsSecondProductBecomeOneLinear) {
  const Array x = input();
  fuse_for({activate(linear(x, weight("gate")), Activation::kSilu) * linear(x, weight("up"))});
  EXPECT_EQ(root().op, op::kFusedLinear);
  EXPECT_EQ(root().as<FusedLinearAttr>().weights, 2);
  EXPECT_EQ(root().as<FusedLinearAttr>().gate, ActivateAttr(Activation::kSilu));
  EXPECT_EQ(input_of(root(), 3).name, "gate");
  EXPECT_EQ(input_of(root(), 4).name, "up");
  EXPECT_EQ(count(op::kFusedLinear), 1);
  EXPECT_EQ(count(op::kLinear) + count(op::kMul) + count(op::kActivate), 0);
}

TEST_F(Fusion, AGateWhoseProductIsWantedElsewhereStays) {
  const Array x = input();
  const Array gate = linear(x, weight("gate"));
  fuse_for({activate(gate, Activation::kSilu) * linear(x, weight("up")), gate});
  EXPECT_EQ(count(op::kMul), 1);
  EXPECT_EQ(count(op::kActivate), 1);
}

TEST_F(Fusion, AGateOfAnotherInputIsNoGate) {
  const Array gate = activate(linear(input(), weight("gate")), Activation::kSilu);
  fuse_for(
      {gate * linear(leaf(op::kParam, "z", {Symbol::kRows, kCols}, ParamAttr{}), weight("up"))});
  EXPECT_EQ(count(op::kMul), 1);
  EXPECT_EQ(count(op::kLinear), 1);
  EXPECT_EQ(count(op::kFusedLinear), 1);  // the activation in its linear
}

TEST_F(Fusion, AnActivationGoesIntoItsLinear) {
  fuse_for({activate(linear(input(), weight("w")), Activation::kGelu)});
  EXPECT_EQ(root().op, op::kFusedLinear);
  EXPECT_EQ(root().as<FusedLinearAttr>().gate, ActivateAttr(Activation::kGelu));
  EXPECT_EQ(count(op::kActivate), 0);
}

TEST_F(Fusion, LinearsOfOneInputAreJoined) {
  const Array x = input();
  fuse_for({linear(x, weight("a", 8)), linear(x, weight("b", 4)), linear(x, weight("c", 2))});
  EXPECT_EQ(count(op::kFusedLinear), 1);
  EXPECT_EQ(count(op::kLinear), 0);
  constexpr int64_t kBegin[] = {0, 8, 12};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(root(i).op, op::kColumns);
    EXPECT_EQ(root(i).as<ColumnsAttr>().begin, kBegin[i]);
    EXPECT_EQ(input_of(root(i), 0).as<FusedLinearAttr>().weights, 3);
  }
}

TEST_F(Fusion, PrecisionIsKeptAndLinearsThatDifferInItStayApart) {
  constexpr auto kHigh = Precision::kHigh;
  const Array x = input();
  fuse_for({activate(linear(x, weight("w"), {}, kHigh), Activation::kGelu)});
  EXPECT_EQ(root().as<FusedLinearAttr>().precision, kHigh);
  fuse_for({activate(linear(x, weight("gate"), {}, kHigh), Activation::kSilu) *
            linear(x, weight("up"), {}, kHigh)});
  EXPECT_EQ(root().as<FusedLinearAttr>().weights, 2);
  EXPECT_EQ(root().as<FusedLinearAttr>().precision, kHigh);
  fuse_for({linear(x, weight("a"), {}, kHigh), linear(x, weight("b")),
            linear(x, weight("c"), {}, kHigh)});
  EXPECT_EQ(count(op::kFusedLinear), 1);
  EXPECT_EQ(input_of(root(0), 0).as<FusedLinearAttr>().precision, kHigh);
  EXPECT_EQ(root(1).as<LinearAttr>().precision, Precision::kUsual);
  EXPECT_EQ(root(2).as<ColumnsAttr>().begin, kCols);
  fuse_for({activate(linear(x, weight("gate"), {}, kHigh), Activation::kSilu) *
            linear(x, weight("up"))});
  EXPECT_EQ(count(op::kLinear), 1);
  EXPECT_EQ(count(op::kFusedLinear), 1);  // the activation in its linear
}

TEST_F(Fusion, ANormGoesIntoTheOneLinearThatReadsIt) {
  const Array normed = rms_norm(input(), weight("norm", 1), 1e-5F);
  fuse_for({linear(normed, weight("w"))});
  EXPECT_EQ(count(op::kRmsNorm), 0);
  EXPECT_EQ(input_of(root(), 1).name, "norm");
  EXPECT_EQ(root().as<FusedLinearAttr>().eps, 1e-5F);
}

TEST_F(Fusion, ANormOfHeadsAndOneThatIsWantedStay) {
  const Array heads = rms_norm(input(), weight("norm", 1, kCols / 4), 1e-5F, 4);
  const Array normed = rms_norm(input(), weight("other", 1), 1e-5F);
  fuse_for({linear(heads, weight("a")), linear(normed, weight("b")), normed});
  EXPECT_EQ(count(op::kRmsNorm), 2);
}

TEST_F(Fusion, AFactorGoesIntoItsLinear) {
  fuse_for({scale(linear(input(), weight("w")), 0.5F)});
  EXPECT_EQ(root().op, op::kFusedLinear);
  EXPECT_EQ(root().as<FusedLinearAttr>().scale, 0.5F);
  EXPECT_EQ(count(op::kScale), 0);
}

TEST_F(Fusion, AResidualGoesIntoLinearAndNorm) {
  const Array x = input();
  const Array y = x + linear(x, weight("w"));
  fuse_for({y + rms_norm(y, weight("norm", 1), 1e-5F)});
  EXPECT_EQ(count(op::kAdd), 0);
  EXPECT_EQ(root().op, op::kRmsNormAdd);
  EXPECT_EQ(input_of(root(), 2).op, op::kFusedLinear);
  EXPECT_EQ(input_of(input_of(root(), 2), 2).name, "x");
}

TEST_F(Fusion, ALinearWithoutNeighboursStays) {
  fuse_for({linear(input(), weight("w"), weight("b", 1))});
  EXPECT_EQ(root().op, op::kLinear);
}

TEST_F(Fusion, AValueAddedToItselfIsNoResidual) {
  const Array y = linear(input(), weight("w"));
  fuse_for({y + y});
  EXPECT_EQ(count(op::kAdd), 1);
}

TEST_F(Fusion, ProjectionsHeadNormsRotationAndCacheWritesBecomeOneOp) {
  constexpr int32_t kHeads = 4, kKvHeads = 2;
  const Array x = input();
  const Array angles = rope_angles(index("positions"), {.dims = 4});
  const auto cache = [&](const std::string& name, bool keys) {
    return leaf(
        op::kState, name, {Symbol::kRows, 8},
        StateAttr{.kind = keys ? StateKind::kKeys : StateKind::kValues, .kv_heads = kKvHeads});
  };
  const auto rotated = [&](Array v, int32_t heads) {
    return rope(v, angles, {.heads = heads, .dims = 4});
  };
  const Array q = rms_norm(linear(x, weight("q")), weight("q_norm", 1, 4), 1e-6F, kHeads);
  const Array k = rms_norm(linear(x, weight("k", 8)), weight("k_norm", 1, 4), 1e-6F, kKvHeads);
  const Array keys = cache_write(rotated(k, kKvHeads), cache("keys", true));
  const Array values = cache_write(linear(x, weight("v", 8)), cache("values", false));
  fuse_for({attend(rotated(q, kHeads), keys, values, {.heads = kHeads, .kv_heads = kKvHeads})});
  EXPECT_EQ(root().op, op::kAttend);
  const Node& qkv = input_of(root(), 0);
  ASSERT_EQ(qkv.op, op::kQkvRope);
  EXPECT_EQ(qkv.as<QkvRopeAttr>().head_dim, 4);
  EXPECT_EQ(input_of(qkv, 4).name, "q_norm");
  EXPECT_EQ(input_of(root(), 1).name, "keys");
  EXPECT_EQ(count(op::kFusedLinear), 1);
  EXPECT_EQ(count(op::kRope) + count(op::kCacheWrite) + count(op::kRmsNorm) + count(op::kColumns),
            0);
}

TEST_F(Fusion, TheLargestLogitIsFoundWithoutWritingLogits) {
  const Array logits = linear(input(), weight("head", 100));
  fuse_for({argmax(logits)});
  EXPECT_EQ(root().op, op::kLinearArgmax);
  fuse_for({argmax(logits), logits});
  EXPECT_EQ(root().op, op::kArgmax);
  fuse_for({argmax(softcap(logits, 30))});
  EXPECT_EQ(root().op, op::kLinearArgmax);
  EXPECT_EQ(count(op::kSoftcap), 0);
}

}  // namespace
}  // namespace veery

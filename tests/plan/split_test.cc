// A graph in two parts.
#include "plan/split.h"

#include <gtest/gtest.h>

#include "array/array.h"
#include "base/error.h"

namespace veery {
namespace {

TEST(Split, LayersAreNumbersBehindBlk) {
  EXPECT_EQ(layer_of("blk.0.attn_q.weight"), 0);
  EXPECT_EQ(layer_of("blk.12.ffn"), 12);
  for (const char* name : {"output.weight", "blk", "blk.", "blk.x.attn", "a.blk.1"})
    EXPECT_EQ(layer_of(name), -1) << name;
}

struct TwoLayers {
  Graph graph;
  Value x, first, second, head;

  TwoLayers() {
    x = graph.leaf(op::kInput, "x", {Symbol::kRows, 4});
    const auto layer = [&](Value in, const char* name) {
      const Value weight = graph.leaf(op::kParam, name, {4, 4});
      const Value y = graph.add(op::kLinear, inputs({in, weight}), LinearAttr{});
      return Value(graph.add(op::kAdd, inputs({in, y}), {}, std::string(name) + ".out"));
    };
    first = layer(x, "blk.0.weight");
    second = layer(first, "blk.1.weight");
    head = layer(second, "output.weight");
  }
  static bool names(const Graph& graph, std::string_view leaf) {
    for (const Node& node : graph.nodes())
      if (node.name == leaf) return true;
    return false;
  }
};

// The back has the nodes of the last layers and the output head; one value crosses.
TEST(Split, TheBackBeginsAtItsFirstLayer) {
  TwoLayers of;
  const SplitGraph parts = split(of.graph, {of.head}, 1);
  verify(parts.front);
  verify(parts.back);
  EXPECT_TRUE(TwoLayers::names(parts.front, "blk.0.weight"));
  EXPECT_TRUE(TwoLayers::names(parts.front, "x"));
  EXPECT_FALSE(TwoLayers::names(parts.front, "blk.1.weight"));
  EXPECT_FALSE(TwoLayers::names(parts.front, "output.weight"));
  EXPECT_FALSE(TwoLayers::names(parts.back, "blk.0.weight"));
  EXPECT_FALSE(TwoLayers::names(parts.back, "x"));
  EXPECT_TRUE(TwoLayers::names(parts.back, "blk.1.weight"));
  EXPECT_TRUE(TwoLayers::names(parts.back, "output.weight"));
  ASSERT_EQ(parts.crossing.size(), 1U);
  EXPECT_EQ(parts.front[parts.crossing[0]].name, "blk.0.weight.out");
  EXPECT_TRUE(TwoLayers::names(parts.back, parts.inputs[0]));
  ASSERT_EQ(parts.roots.size(), 1U);
  EXPECT_EQ(parts.back[parts.roots[0].value].name, "output.weight.out");
  // The same value has one name, whatever the roots are.
  EXPECT_EQ(split(of.graph, {of.second}, 1).inputs, parts.inputs);
}

TEST(Split, RootsOfTheFrontStayThere) {
  TwoLayers of;
  const SplitGraph parts = split(of.graph, {of.head, of.first}, 1);
  ASSERT_EQ(parts.roots.size(), 2U);
  EXPECT_EQ(parts.roots[0].crossing, -1);
  ASSERT_EQ(parts.roots[1].crossing, 0);  // the back reads the same value
  EXPECT_EQ(parts.front[parts.crossing[0]].name, "blk.0.weight.out");
  EXPECT_EQ(parts.crossing.size(), 1U);
}

}  // namespace
}  // namespace veery

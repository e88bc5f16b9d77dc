// How a graph reads its weights, which decides whether one is packed or stays in its file.
#include "plan/weight_use.h"

#include <gtest/gtest.h>

#include "array/array.h"

namespace veery {
namespace {

TEST(WeightUse, OnlyTheTableOfEmbedIsGathered) {
  Graph graph;
  const auto param = [&](const char* name) {
    return Array{graph, graph.leaf(op::kParam, name, {64, 16}, ParamAttr{})};
  };
  const Array ids{graph,
                  graph.leaf(op::kInput, "tokens", {Symbol::kRows, 1}, InputAttr{DType::kI32})};
  const Array tied = param("tied");
  linear(embed(ids, tied) + embed(ids, param("table")), param("matrix"));
  linear(embed(ids, tied), param("tied"));  // a second leaf of the same name

  std::map<std::string, ParamUse> uses = param_uses(graph);
  EXPECT_EQ(uses.size(), 3U);
  EXPECT_TRUE(uses["table"].is_only_gathered());
  EXPECT_TRUE(uses["tied"].gathered && uses["tied"].multiplied);
  EXPECT_FALSE(uses["tied"].is_only_gathered());
  EXPECT_TRUE(!uses["matrix"].gathered && uses["matrix"].multiplied);
}

}  // namespace
}  // namespace veery

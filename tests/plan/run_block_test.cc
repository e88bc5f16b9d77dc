// RunBlock: the inputs of a run by their names in graphs, and the rows of a run.
#include "plan/run_block.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "array/array.h"

namespace veery {
namespace {

TEST(RunBlock, LaysOutTheInputsOfAGraph) {
  Graph graph;
  input(graph, "types", {Symbol::kRows, 1}, {DType::kI32});
  input(graph, "features", {Symbol::kRows, 3});
  input(graph, "pixels", {7, 5}, {DType::kU8});
  input(graph, "halves", {Symbol::kOutputs, 2}, {DType::kBF16});
  input(graph, "types", {Symbol::kRows, 1}, {DType::kI32});  // again
  RunBlock block(graph, 4);
  const std::span<int32_t> types = block.input<int32_t>("types");
  ASSERT_EQ(types.size(), 4U);
  EXPECT_EQ(std::ranges::count(types, 0), 4);
  types[2] = 7;
  EXPECT_EQ(block.input<int32_t>("types")[2], 7);
  EXPECT_EQ(block.input<float>("features").size(), 12U);
  EXPECT_EQ(block.input<uint8_t>("pixels").size(), 35U);
  EXPECT_EQ(block.input<uint16_t>("halves").size(), 8U);
  EXPECT_TRUE(block.is_taken("pixels"));
  EXPECT_EQ(block.operand("pixels").stride, 5);
  EXPECT_EQ(block.operand("halves").stride, 4);
}

TEST(RunBlock, RefusesUnknownInputsAndOtherTypes) {
  Graph graph;
  input(graph, "features", {Symbol::kRows, 3});
  RunBlock block(graph, 4);
  EXPECT_THROW(block.input<float>("targets"), Error);
  EXPECT_TRUE(block.find<float>("targets").empty());
  EXPECT_FALSE(block.is_taken("features"));
  EXPECT_THROW(block.input<int32_t>("features"), Error);
  EXPECT_FALSE(block.is_taken("features"));
  EXPECT_THROW(block.find<uint16_t>("features"), Error);
  input(graph, "features", {Symbol::kRows, 4});
  EXPECT_THROW(inputs_of(graph), Error);
}

TEST(RunBlock, SpansSayWhichSequenceARowBelongsTo) {
  Graph graph;
  input(graph, "positions", {Symbol::kRows, 1}, {DType::kI32});
  RunBlock block(graph, 6);
  block.add_span(3, 2, 10);
  block.add_span(1, 4, 0, 9);
  EXPECT_EQ(block.shape.rows, 6);
  EXPECT_EQ(block.shape.sequence(1), 3);
  EXPECT_EQ(block.shape.sequence(2), 1);
  EXPECT_EQ(block.shape.position(1), 11);
  EXPECT_EQ(block.shape.position(5), 3);
  EXPECT_EQ(block.shape.span(5).visible, 9);
  EXPECT_EQ(block.input<int32_t>("positions")[1], 11);
  EXPECT_EQ(block.input<int32_t>("positions")[5], 3);
  block.add_output(1);
  block.add_output(5);
  EXPECT_EQ(block.shape.token_row(kOutputRows, 1), 5);
  block.clear();
  EXPECT_EQ(block.shape.rows, 0);
  EXPECT_EQ(block.shape.outputs, 0);
}

}  // namespace
}  // namespace veery

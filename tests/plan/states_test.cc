// KV caches: pages have the requested types.
#include "plan/states.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace veery {
namespace {

Graph one_layer(int32_t heads, int32_t head_dim) {
  Graph graph;
  graph.leaf(op::kState, "k", {0, int64_t{heads} * head_dim},
             StateAttr{StateKind::kKeys, heads, 0});
  graph.leaf(op::kState, "v", {0, int64_t{heads} * head_dim},
             StateAttr{StateKind::kValues, heads, 0});
  return graph;
}

TEST(States, KeysAndValuesHaveTypesOfTheirOwn) {
  const StateStore states(one_layer(3, 64),
                          {.keys = DType::kQ8_0, .values = DType::kBF16, .context = 600});
  const Operand& keys = states.at("k");
  const Operand& values = states.at("v");
  EXPECT_EQ(keys.dtype, DType::kQ8_0);
  EXPECT_EQ(keys.layout, Layout::kKeyPages);
  EXPECT_EQ(keys.stride, 256 * 3 * 64 / 32 * 34);
  EXPECT_EQ(values.dtype, DType::kBF16);
  EXPECT_EQ(values.layout, Layout::kValuePages);
  EXPECT_EQ(values.stride, 256 * 3 * 64 * 2);
  EXPECT_GE(states.bytes(), static_cast<size_t>(3 * (keys.stride + values.stride)));
}

std::string refusal(int32_t head_dim, DType keys, DType values) {
  try {
    const StateStore states(one_layer(2, head_dim), {.keys = keys, .values = values});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    return error.what();
  }
  return "nothing";
}

TEST(States, WhatCannotBeKeptIsRefusedByName) {
  EXPECT_EQ(refusal(80, DType::kQ8_0, DType::kF16),
            "cache: keys of type q8_0 need heads of a multiple of 32 dimensions, these have 80");
  EXPECT_EQ(refusal(64, DType::kF16, DType::kQ4_0),
            "cache: values of type q4_0, expected f32, f16, bf16 or q8_0");
  EXPECT_EQ(refusal(80, DType::kF32, DType::kBF16), "nothing");
}

}  // namespace
}  // namespace veery

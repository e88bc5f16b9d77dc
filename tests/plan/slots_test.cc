// Slots: what varies between runs, by the names that graphs give it.
#include "plan/slots.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace veery {
namespace {

TEST(Slots, WhatAGraphNamesIsMadeOnceAndStays) {
  SlotBlock block(4);
  const std::span<int32_t> types = block.slot("types");
  ASSERT_EQ(types.size(), 4U);
  EXPECT_EQ(std::ranges::count(types, 0), 4);
  types[2] = 7;
  const std::span<float> features = block.input("features", 3);
  ASSERT_EQ(features.size(), 12U);
  for (int i = 0; i < 50; ++i) block.slot("other " + std::to_string(i));
  EXPECT_EQ(block.slot("types").data(), types.data());
  EXPECT_EQ(block.slot("types")[2], 7);
  EXPECT_EQ(block.input("features", 3).data(), features.data());
  EXPECT_THROW(block.input("features", 2), Error);
}

TEST(Slots, SpansSayWhichRowsAreWhose) {
  SlotBlock block(6);
  block.add_span(3, 2, 10);
  block.add_span(1, 4, 0);
  EXPECT_EQ(block.slots.rows, 6);
  EXPECT_EQ(block.slots.tokens, block.slot("tokens").data());
  EXPECT_EQ(block.slots.sequence(1), 3);
  EXPECT_EQ(block.slots.sequence(2), 1);
  EXPECT_EQ(block.slot("positions")[1], 11);
  EXPECT_EQ(block.slot("positions")[5], 3);
  block.clear();
  EXPECT_EQ(block.slots.rows, 0);
}

}  // namespace
}  // namespace veery

// ValueOffsets: two values that are alive together never share a byte.
#include "plan/offsets.h"

#include <gtest/gtest.h>

#include <random>

namespace veery {
namespace {

TEST(ValueOffsets, OverlappingLifetimesDoNotShareMemory) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    size_t sum = 0;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 40);
      lives.push_back({first, first + static_cast<int>(random() % 8), random() % 5000});
      sum += lives.back().bytes + 64;
    }
    const ValueOffsets p = assign_offsets(lives);
    ASSERT_LE(p.bytes, sum);
    for (size_t a = 0; a < lives.size(); ++a) {
      ASSERT_EQ(p.offsets[a] % 64, 0U);
      ASSERT_LE(p.offsets[a] + lives[a].bytes, p.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool apart = p.offsets[a] + lives[a].bytes <= p.offsets[b] ||
                           p.offsets[b] + lives[b].bytes <= p.offsets[a];
        ASSERT_TRUE(!together || apart) << a << " and " << b;
      }
    }
  }
}

TEST(ValueOffsets, AChainNeedsMemoryForTwo) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 100; ++i) chain.push_back({i, i + 1, 1024});
  EXPECT_EQ(assign_offsets(chain).bytes, 2048U);
}

}  // namespace
}  // namespace veery

#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/thread_pool.h"

namespace veery {
namespace {

// Shares of different lengths, some of them empty.
int64_t items_of(int owner) { return owner % 3 == 1 ? 0 : 100 + 37 * owner; }

TEST(TakeItems, EachIsTakenOnce) {
  for (const int workers : {1, 2, 5}) {
    ThreadPool pool(workers);
    std::vector<std::vector<std::atomic<int>>> times;
    for (int w = 0; w < workers; ++w) times.emplace_back(static_cast<size_t>(items_of(w)));
    for (int run = 0; run < 20; ++run) {
      std::vector<std::atomic<int32_t>> taken(static_cast<size_t>(workers));
      pool.run([&](int index) {
        take_items({index, workers, nullptr, taken.data()}, items_of,
                   [&](int owner, int64_t item) { ++times[owner][item]; });
      });
      for (const auto& share : times)
        for (const auto& count : share) ASSERT_EQ(run + 1, count.load());
    }
  }
}

TEST(TakeItems, TheFirstWorkerTakesAll) {
  std::vector<std::atomic<int32_t>> taken(3);
  const auto count = [&](int index) {
    int64_t items = 0;
    take_items({index, 3, nullptr, taken.data()}, items_of, [&](int, int64_t) { ++items; });
    return items;
  };
  EXPECT_EQ(items_of(0) + items_of(1) + items_of(2), count(1));
  EXPECT_EQ(0, count(0));
  EXPECT_EQ(0, count(2));
}

TEST(TakeItems, WithoutStealingEachWorkerTakesItsShare) {
  std::vector<int64_t> items;
  take_items({2, 3, nullptr}, items_of, [&](int owner, int64_t item) {
    EXPECT_EQ(2, owner);
    items.push_back(item);
  });
  ASSERT_EQ(static_cast<size_t>(items_of(2)), items.size());
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(static_cast<int64_t>(i), items[i]);
}

}  // namespace
}  // namespace veery

// The emulator of GPUs itself: what it says of kernels that would hang or read too early.
#include "kernels/gpu/dialect/emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"

namespace veery::gpu {
namespace {

template <typename Kernel>
void run(const LaunchSize& size, Kernel kernel) {
  emulated::run([](const void* k) { (*static_cast<const Kernel*>(k))(); }, &kernel, size);
}

TEST(GpuEmulator, EveryThreadOfEveryBlockRunsOnce) {
  std::set<std::array<int, 4>> seen;
  run({.blocks_x = 3, .blocks_y = 2, .blocks_z = 2, .threads = 64}, [&] {
    sync_block();
    EXPECT_TRUE(seen.insert({block_x(), block_y(), block_z(), thread()}).second);
    sync_warp();
  });
  EXPECT_EQ(seen.size(), 3U * 2 * 2 * 64);
}

// Sums over warps, which a barrier of the block follows; one warp goes on longer than the other.
TEST(GpuEmulator, BarriersKeepWarpsAndBlocksTogether) {
  std::array<int, 4> sums{};
  run({.blocks_x = 2, .threads = 64}, [&] {
    int sum = thread();
    for (int mask = 1; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    if (thread() / 32 == 1)
      for (int i = 0; i < 5; ++i) sum = shuffle(sum, i);
    sync_block();
    const auto first = static_cast<size_t>(block_x() * 2);
    if (thread() % 32 == 7) sums[first + static_cast<size_t>(thread() / 32)] = sum;
    sync_block();
    EXPECT_EQ(sums[first] + sums[first + 1], 63 * 64 / 2);
  });
}

TEST(GpuEmulator, BlocksThatRunTogetherWaitForOneAnother) {
  int32_t flag = 0, counter = 0;
  run({.blocks_x = 3, .threads = 32, .cooperative = true}, [&] {
    if (block_x() < 2) {
      wait_for_flag(&flag, 1);
      EXPECT_EQ(flag, 1) << block_x() << thread();
    }
    if (block_x() == 2 && thread() == 31) set_flag(&flag, 1);
    arrive_at(&counter);
    sync_grid(nullptr, 0);
    EXPECT_EQ(counter, 96);
  });
}

TEST(GpuEmulator, ThreadsThatWaitForEverAreAnError) {
  const LaunchSize size{.threads = 64};
  EXPECT_THROW(run(size,
                   [] {
                     if (thread() != 5) sync_block();
                   }),
               Error);
  EXPECT_THROW(run(size,
                   [] {
                     if (thread() == 5) sync_warp();
                   }),
               Error);
  int32_t flag = 0;
  EXPECT_THROW(run(size, [&] { wait_for_flag(&flag, thread() == 0 ? 1 : 0), sync_block(); }),
               Error);
  run(size, [] { sync_block(); });  // and the next one is as ever
}

TEST(GpuEmulator, CopiesAreMadeWhenTheirGroupIsWaitedFor) {
  alignas(16) static uint8_t from[16], first[16], second[16], third[16];
  std::fill(std::begin(from), std::end(from), uint8_t{7});
  const auto copy = [](uint8_t* to) { begin_copy(to, from), end_group(); };
  run({.threads = 1}, [&] {
    copy(first), copy(second), copy(third);
    EXPECT_NE(first[3], 7);
    wait_for_groups<2>();
    EXPECT_EQ(first[3], 7);
    EXPECT_NE(second[3], 7);
    copy(first);
    EXPECT_NE(first[3], 7);
    wait_for_groups<1>();
    EXPECT_EQ(second[3], 7);
    EXPECT_EQ(third[3], 7);
    EXPECT_NE(first[3], 7);
    wait_for_groups<0>();
    EXPECT_EQ(first[3], 7);
  });
  EXPECT_THROW(run({.threads = 1}, [&] { copy(first); }), Error);
}

}  // namespace
}  // namespace veery::gpu

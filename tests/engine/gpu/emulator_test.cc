// The GPU emulator: it must detect kernels that would hang or read data before it has arrived.
#define VEERY_GPU_CODE
#define VEERY_CUDA_CODE
#include "kernels/gpu/dialect/emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/kernels/linear/tickets-inl.h"

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

// Warp sums followed by a block barrier; one warp takes longer than the other.
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

TEST(GpuEmulator, TicketsOrderTheWarpsOfASlot) {
  constexpr int kWarps = 3, kRounds = 2 * TicketSmem::kTicketsPerSlot;  // barriers are reused
  std::vector<int> order;
  run({.threads = kWarps * 32, .shared = TicketSmem::kBytes}, [&] {
    const Tickets tickets(shared_memory());
    tickets.init(6, kRounds, kWarps);
    sync_block();
    // The last warp takes the first tickets.
    for (int ticket = kWarps - 1 - thread() / 32; ticket < kRounds; ticket += kWarps) {
      tickets.wait(5, ticket);
      if (thread() % 32 == 0) order.push_back(ticket);
      tickets.pass_on(5, ticket);
    }
  });
  std::vector<int> in_turn(kRounds);
  std::iota(in_turn.begin(), in_turn.end(), 0);
  EXPECT_EQ(order, in_turn);
}

TEST(GpuEmulator, ALaneIssuesTheCopyThatOnlyItKnows) {
  alignas(16) uint8_t from[2][16];
  std::memset(from[0], 1, 16), std::memset(from[1], 2, 16);
  std::vector<int> seen(32);
  run({.threads = 32, .shared = 48}, [&] {
    auto* mbarrier = reinterpret_cast<Mbarrier*>(shared_memory() + 32);
    if (thread() == 0) init_tile_mbarrier(mbarrier);
    sync_block();
    copy_bulk_from_lane(7, mbarrier, shared_memory(), thread() == 7 ? from[1] : from[0], 16);
    wait_for_phase(mbarrier, 0);
    seen[static_cast<size_t>(thread())] = shared_memory()[15];
  });
  EXPECT_EQ(seen, std::vector<int>(32, 2));
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
  EXPECT_THROW(run({.threads = 64, .shared = 16},
                   [] {
                     auto* arrivals = reinterpret_cast<Mbarrier*>(shared_memory());
                     if (thread() == 0) init_mbarrier(arrivals, 64);
                     sync_block();
                     if (thread() != 5) arrive(arrivals);
                     wait_for_phase(arrivals, 0);
                   }),
               Error);
  run(size, [] { sync_block(); });  // the next launch is not affected
}

// The memory of an mbarrier must not be reused until the launch ends.
TEST(GpuEmulator, MbarrierMemoryMustNotBeReused) {
  enum class Then { kNothing, kWrites, kMakesAgain };
  const auto complaint = [](Then then) -> std::string {
    try {
      run({.threads = 32, .shared = 16}, [&] {
        auto* mbarrier = reinterpret_cast<Mbarrier*>(shared_memory());
        if (thread() == 0) init_mbarrier(mbarrier);
        sync_block();
        arrive(mbarrier);
        wait_for_phase(mbarrier, 0);
        sync_block();
        if (thread() != 0) return;
        if (then == Then::kWrites) *mbarrier = 77;
        if (then == Then::kMakesAgain) init_mbarrier(mbarrier);
      });
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(Then::kNothing), "");
  for (const Then then : {Then::kWrites, Then::kMakesAgain})
    EXPECT_NE(complaint(then).find("mbarrier"), std::string::npos);
}

TEST(GpuEmulator, CopiesAreMadeWhenTheirGroupIsAwaited) {
  alignas(16) static uint8_t from[16], first[16], second[16], third[16];
  std::fill(std::begin(from), std::end(from), uint8_t{7});
  const auto copy = [](uint8_t* to) { copy_async_16(to, from), commit_copies(); };
  run({.threads = 1}, [&] {
    copy(first), copy(second), copy(third);
    EXPECT_NE(first[3], 7);
    wait_for_copies<2>();
    EXPECT_EQ(first[3], 7);
    EXPECT_NE(second[3], 7);
    copy(first);
    EXPECT_NE(first[3], 7);
    wait_for_copies<1>();
    EXPECT_EQ(second[3], 7);
    EXPECT_EQ(third[3], 7);
    EXPECT_NE(first[3], 7);
    wait_for_copies<0>();
    EXPECT_EQ(first[3], 7);
  });
  EXPECT_THROW(run({.threads = 1}, [&] { copy(first); }), Error);
}

}  // namespace
}  // namespace veery::gpu

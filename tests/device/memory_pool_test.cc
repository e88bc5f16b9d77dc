// Tests of the pool of device memory: limits, counters, reuse of released blocks.
#include "device/memory_pool.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace veery {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// A fake device with `bytes` of memory, which is host memory.
struct FakeDevice {
  explicit FakeDevice(size_t bytes) : left(bytes) {}
  ~FakeDevice() { EXPECT_TRUE(blocks.empty()) << "blocks were not released"; }

  MemorySource source() {
    return {.allocate = [this](size_t size) -> std::byte* {
              if (size > left) return nullptr;
              left -= size;
              ++allocations;
              auto* data = static_cast<std::byte*>(std::malloc(8));
              blocks[data] = size;
              return data;
            },
            .release =
                [this](std::byte* data) {
                  left += blocks.at(data);
                  blocks.erase(data);
                  std::free(data);
                },
            .free_bytes = [this] { return left; },
            .name = "fake:0"};
  }

  size_t left;
  int allocations = 0;
  std::map<std::byte*, size_t> blocks;
};

std::string refusal(MemoryPool& pool, size_t size) {
  try {
    pool.release(pool.allocate(size));
  } catch (const OutOfDeviceMemory& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    return error.what();
  }
  return "";
}

TEST(MemoryPool, CountsActiveAndPeakBytes) {
  FakeDevice device(100 * kMiB);
  MemoryPool pool(device.source());
  std::byte* small = pool.allocate(1);
  std::byte* large = pool.allocate(3 * kMiB);
  EXPECT_EQ(pool.memory().active, 256 + 4 * kMiB);
  pool.release(large);
  EXPECT_EQ(pool.memory().active, 256U);
  EXPECT_EQ(pool.memory().peak, 256 + 4 * kMiB);
  EXPECT_EQ(pool.memory().cached, 0U);
  pool.reset_peak();
  EXPECT_EQ(pool.memory().peak, 256U);
  pool.release(small);
  EXPECT_EQ(device.left, 100 * kMiB);
}

TEST(MemoryPool, CachesReleasedBlocksUpToItsLimitAndReusesThem) {
  FakeDevice device(100 * kMiB);
  MemoryPool pool(device.source());
  pool.set_cache_limit(20 * kMiB);
  std::byte* block = pool.allocate(10 * kMiB);
  pool.release(block);
  EXPECT_EQ(pool.memory().cached, 10 * kMiB);
  EXPECT_EQ(pool.allocate(9 * kMiB), block) << "a block up to a quarter larger is reused";
  EXPECT_EQ(device.allocations, 1);
  EXPECT_EQ(pool.memory().active, 10 * kMiB);
  pool.release(block);
  std::byte* smaller = pool.allocate(2 * kMiB);
  EXPECT_NE(smaller, block) << "a block five times as large is not reused";
  pool.release(smaller);
  pool.release(pool.allocate(18 * kMiB));
  EXPECT_LE(pool.memory().cached, 20 * kMiB);
  pool.set_cache_limit(1 * kMiB);
  EXPECT_EQ(pool.memory().cached, 0U);
  pool.release(pool.allocate(2 * kMiB));
  EXPECT_EQ(device.left, 100 * kMiB);
}

TEST(MemoryPool, FreesTheCacheBeforeItFails) {
  FakeDevice device(20 * kMiB);
  MemoryPool pool(device.source());
  pool.set_cache_limit(20 * kMiB);
  pool.release(pool.allocate(12 * kMiB));
  EXPECT_EQ(device.left, 8 * kMiB);
  pool.release(pool.allocate(18 * kMiB));
  EXPECT_EQ(refusal(pool, 22 * kMiB),
            fmt::format("fake:0: cannot allocate {} bytes: 0 in use, {} free on the device",
                        22 * kMiB, 20 * kMiB));
}

TEST(MemoryPool, DoesNotExceedItsLimit) {
  FakeDevice device(100 * kMiB);
  MemoryPool pool(device.source());
  pool.set_cache_limit(SIZE_MAX);
  pool.set_limit(10 * kMiB);
  std::byte* block = pool.allocate(6 * kMiB);
  EXPECT_NE(refusal(pool, 6 * kMiB).find(fmt::format("in use of a limit of {}", 10 * kMiB)),
            std::string::npos);
  pool.release(pool.allocate(4 * kMiB));
  EXPECT_EQ(pool.memory().cached, 4 * kMiB);
  std::byte* other = pool.allocate(2 * kMiB);
  EXPECT_LE(pool.memory().active + pool.memory().cached, 10 * kMiB);
  pool.set_limit(1);
  EXPECT_FALSE(refusal(pool, 1).empty());
  pool.release(block);
  pool.release(other);
  EXPECT_FALSE(refusal(pool, SIZE_MAX).empty());
}

TEST(MemoryPool, ThreadsNeverGetTheSameBlock) {
  FakeDevice device(10'000 * kMiB);
  MemoryPool pool(device.source());
  pool.set_cache_limit(64 * kMiB);
  std::mutex mutex;
  std::set<std::byte*> held;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      std::byte* block = pool.allocate(random() % (8 * kMiB));
      {
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(held.insert(block).second);
      }
      {
        const std::lock_guard lock(mutex);
        held.erase(block);
      }
      pool.release(block);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.memory().active, 0U);
  EXPECT_LE(pool.memory().cached, 64 * kMiB);
}

}  // namespace
}  // namespace veery

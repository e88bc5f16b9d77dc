// Plans do not allocate while they run. The test counts every operator new of the process.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/models.h"
#include "support/one_sequence.h"

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* data = alignment <= alignof(std::max_align_t)
                   ? std::malloc(size)
                   : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

// Not inlined, because the compiler would warn about mismatched malloc() and operator delete.
#define VEERY_COUNTED __attribute__((noinline))

VEERY_COUNTED void* operator new(std::size_t size) { return counted(size, 1); }
VEERY_COUNTED void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
VEERY_COUNTED void operator delete(void* data) noexcept { std::free(data); }
VEERY_COUNTED void operator delete(void* data, std::size_t) noexcept { std::free(data); }
VEERY_COUNTED void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
VEERY_COUNTED void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  std::free(data);
}

namespace veery {
namespace {

class Allocation : public ::testing::TestWithParam<const char*> {};

TEST_P(Allocation, NoneInARunAfterWarmUp) {
  const std::string path = test::model_path(GetParam());
  VEERY_NEEDS_MODEL(path);
  Model model(path, {.context = 512});
  test::OneSequence session(model);
  const std::vector<int32_t> ids(70, 100);
  std::vector<int32_t> out(40);
  session.feed(ids);
  session.decode_greedy(5, out);
  session.rewind(70);
  const long before = allocations;
  EXPECT_GT(before, 0);  // the counter works
  session.decode_greedy(5, out);
  EXPECT_EQ(allocations - before, 0);
  session.plan(70).run();
  EXPECT_EQ(allocations - before, 0);
}

// Mixtures of experts, chunked attention, sinks and latent attention: small random models.
TEST(AllocationOfMixtures, NoneInARunAfterWarmUp) {
  for (const char* name : {"gpt-oss", "qwen2moe", "deepseek-v3", "llama4"}) {
    Model model(test::fixture_path(std::string("tiny/") + name), {.threads = 1});
    test::OneSequence session(model);
    const std::vector<int32_t> ids(50, 7);
    std::vector<int32_t> out(40);
    session.feed(ids);
    session.decode_greedy(5, out);
    session.rewind(50);
    const long before = allocations;
    session.decode_greedy(5, out);
    session.plan(50).run();
    EXPECT_EQ(allocations - before, 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Allocation, ::testing::Values(test::kSmolLM2, test::kGemma3),
                         [](const auto& at) { return at.index == 0 ? "SmolLM2" : "Gemma3"; });

}  // namespace
}  // namespace veery

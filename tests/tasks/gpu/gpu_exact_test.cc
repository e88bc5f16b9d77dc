// --exact on the CUDA and Metal emulators: the bits of the CPU with --exact, for every weight type
// and model family, and any split of a sequence into runs.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "support/fake_metal.h"
#include "support/families.h"
#include "support/gpu_machine.h"
#include "support/sanitized.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::all_logits;
using test::Rows;
using test::SmallModel;
using test::some_ids;

LoadOptions options_for(std::shared_ptr<Backend> backend, int32_t chunk = 64) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = chunk;
  options.exact = true;
  if (backend) options.backends = {std::move(backend)};
  return options;
}
std::shared_ptr<Backend> on_cuda() { return gpu::make_backend(gpu::make_emulator()); }

// {chunk, tokens}: one row, few rows, an incomplete tile of rows, and a full tile plus another.
constexpr std::pair<int32_t, size_t> kRuns[] = {{1, 2}, {3, 3}, {64, 37}, {128, 70}};

class GpuExact : public ::testing::TestWithParam<DType> {};

TEST_P(GpuExact, LogitsHaveTheBitsOfTheCpuInAnyChunk) {
  if (test::kSanitized && GetParam() != DType::kQ4_K && GetParam() != DType::kBF16) return;
  const SmallModel model(GetParam());
  const auto ids = some_ids(70);
  const Rows expected = all_logits(model.path(), options_for(nullptr, 128), ids);
  metal::FakeGpu gpu;
  for (const auto& [chunk, count] : kRuns) {
    const Rows first(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(count));
    const auto some = std::span(ids).first(count);
    EXPECT_EQ(all_logits(model.path(), options_for(on_cuda(), chunk), some), first) << chunk;
    if (test::kSanitized || count == 70) continue;
    EXPECT_EQ(all_logits(model.path(), options_for(metal::make_fake_backend(gpu), chunk), some),
              first)
        << chunk;
  }
  EXPECT_EQ(gpu.faults, "");
}

// One type per weight layout, and each type whose conversion to a layout has separate code.
INSTANTIATE_TEST_SUITE_P(Weights, GpuExact,
                         ::testing::Values(DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                                           DType::kQ5_1, DType::kIQ4_NL, DType::kQ2_K, DType::kQ3_K,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ8_K,
                                           DType::kIQ4_XS, DType::kIQ3_S, DType::kIQ2_XS,
                                           DType::kTQ2_0, DType::kMXFP4, DType::kNVFP4, DType::kF32,
                                           DType::kF16, DType::kBF16),
                         [](const auto& of) { return std::string(veery::info(of.param).name); });

// A linear with weights of several types: blocks of 256, blocks of 32, floats.
TEST(GpuExactTypes, LieSideBySide) {
  for (const auto& [type, values] :
       {std::pair(DType::kQ4_K, DType::kQ6_K), std::pair(DType::kQ8_0, DType::kF16),
        std::pair(DType::kBF16, DType::kQ4_0)}) {
    if (test::kSanitized && type != DType::kQ8_0) continue;
    const SmallModel model(type, false, test::kHidden, 0, 1, values);
    const auto ids = some_ids(12);
    const Rows expected = all_logits(model.path(), options_for(nullptr), ids);
    metal::FakeGpu gpu;
    for (const int32_t chunk : {1, 64}) {
      EXPECT_EQ(all_logits(model.path(), options_for(on_cuda(), chunk), ids), expected);
      EXPECT_EQ(all_logits(model.path(), options_for(metal::make_fake_backend(gpu), chunk), ids),
                expected);
    }
    EXPECT_EQ(gpu.faults, "");
  }
}

// Groups with few and with many pairs of row and expert.
TEST(GpuExactExperts, HaveTheBitsOfTheCpu) {
  for (const DType type : {DType::kQ4_K, DType::kQ8_0, DType::kBF16}) {
    if (test::kSanitized && type != DType::kQ8_0) continue;
    const SmallModel model(type, false, 512, 4);
    const auto ids = some_ids(70);
    const Rows expected = all_logits(model.path(), options_for(nullptr, 128), ids);
    for (const auto& [chunk, count] : kRuns)
      EXPECT_EQ(
          all_logits(model.path(), options_for(on_cuda(), chunk), std::span(ids).first(count)),
          Rows(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(count)))
          << info(type).name << chunk;
  }
}

// Chained greedy decode.
TEST(GpuExactChain, GreedyTextIsThatOfTheCpu) {
  const SmallModel model(DType::kQ6_K);
  const auto ids = some_ids(5);
  const auto answer = [&](std::shared_ptr<Backend> backend) {
    Model of(model.path(), options_for(std::move(backend)));
    test::OneSequence session(of);
    session.feed(ids);
    std::vector<int32_t> made(12);
    session.decode_greedy(7, made);
    return made;
  };
  const auto expected = answer(nullptr);
  EXPECT_EQ(answer(on_cuda()), expected);
  metal::FakeGpu gpu;
  EXPECT_EQ(answer(metal::make_fake_backend(gpu)), expected);
}

class GpuExactFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuExactFamilies, LogitsHaveTheBitsOfTheCpu) {
  if (test::kSanitized && !test::is_recurrent(GetParam())) return;
  const std::string folder = test::folder_of(GetParam());
  const auto ids = test::random_ids(GetParam().ends_with("-sparse") ? 40 : 9, 3);
  const Rows expected = test::logits_of(folder, options_for(nullptr), ids);
  EXPECT_EQ(test::logits_of(folder, options_for(on_cuda()), ids), expected);
  metal::FakeGpu gpu;
  EXPECT_EQ(test::logits_of(folder, options_for(metal::make_fake_backend(gpu), 4), ids), expected);
  EXPECT_EQ(gpu.faults, "");
}
INSTANTIATE_TEST_SUITE_P(All, GpuExactFamilies, ::testing::ValuesIn(test::folders_of("tiny")),
                         test::test_name);

}  // namespace
}  // namespace veery

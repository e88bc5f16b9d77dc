// Every model family on a fake Metal driver, whose shaders the emulator runs: the bits of the CPU.
#include <gtest/gtest.h>

#include "support/fake_metal.h"
#include "support/families.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::folder_of;
using test::folders_of;
using test::is_recurrent;
using test::logits_of;
using test::random_ids;
using test::Rows;
using test::test_name;

LoadOptions options_for(metal::FakeGpu* gpu, int32_t chunk = 64) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = chunk;
  if (gpu != nullptr) options.backends = {metal::make_fake_backend(*gpu)};
  return options;
}

class MetalFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(MetalFamilies, LogitsHaveTheBitsOfTheCpu) {
  if (test::kSanitized && !is_recurrent(GetParam()) && GetParam() != "gemma3") return;
  const std::string folder = folder_of(GetParam());
  // Sparse models: more tokens than positions are chosen.
  const auto ids = random_ids(GetParam().ends_with("-sparse") ? 40 : 9, 3);
  metal::FakeGpu gpu;
  EXPECT_EQ(logits_of(folder, options_for(&gpu, 4), ids),
            logits_of(folder, options_for(nullptr), ids));
  EXPECT_EQ(gpu.faults, "");
}
INSTANTIATE_TEST_SUITE_P(All, MetalFamilies, ::testing::ValuesIn(folders_of("tiny")), test_name);

// Affine groups (MLX), with a prompt long enough for simdgroup matrices.
class MetalGroups : public ::testing::TestWithParam<std::string> {};

TEST_P(MetalGroups, PromptsHaveTheBitsOfTheCpu) {
  if (test::kSanitized) return;
  const std::string folder = folder_of(GetParam());
  const auto ids = random_ids(44, 7);
  metal::FakeGpu gpu;
  EXPECT_EQ(logits_of(folder, options_for(&gpu), ids),
            logits_of(folder, options_for(nullptr), ids));
  EXPECT_EQ(gpu.faults, "");
  EXPECT_TRUE(std::ranges::any_of(gpu.functions, [](const std::string& name) {
    return name.starts_with("veery_gemm_simdgroup") && name.ends_with("mw");
  }));
}
INSTANTIATE_TEST_SUITE_P(All, MetalGroups,
                         ::testing::Values("llama-mlx3", "llama-mlx6", "llama-mlx8",
                                           "deepseek-v3-mlx"),
                         test_name);

class MetalRecurrent : public ::testing::TestWithParam<std::string> {};

TEST_P(MetalRecurrent, RecurrentStateFollowsItsSequence) {
  const std::string folder = folder_of(GetParam());
  const auto ids = random_ids(40, 5);
  const Rows expected = test::logits_of_sequences(folder, options_for(nullptr), ids);
  metal::FakeGpu gpu;
  LoadOptions options = options_for(&gpu);
  EXPECT_EQ(test::logits_of_sequences(folder, options, ids), expected);
  options.backend_layers = 1;
  EXPECT_EQ(test::logits_of_sequences(folder, options, ids), expected) << "one layer on the GPU";
  EXPECT_EQ(gpu.faults, "");
}
INSTANTIATE_TEST_SUITE_P(All, MetalRecurrent, ::testing::ValuesIn(test::kRecurrent), test_name);

class MetalEncoders : public ::testing::TestWithParam<std::string> {};

TEST_P(MetalEncoders, NumbersHaveTheBitsOfTheCpu) {
  const std::vector<std::string> texts = test::some_texts();
  const auto of = std::span(texts).first(test::texts_for(GetParam()));
  metal::FakeGpu gpu;
  const auto expected = test::numbers_of_texts(GetParam(), options_for(nullptr), of);
  LoadOptions options = options_for(&gpu);
  EXPECT_EQ(test::numbers_of_texts(GetParam(), options, of), expected);
  options.backend_layers = 1;
  EXPECT_EQ(test::numbers_of_texts(GetParam(), options, of.first(1)),
            Rows(expected.begin(), expected.begin() + 1))
      << "one layer on the GPU";
  EXPECT_EQ(gpu.faults, "");
}
INSTANTIATE_TEST_SUITE_P(All, MetalEncoders, ::testing::ValuesIn(folders_of("encoders")),
                         test_name);

}  // namespace
}  // namespace veery

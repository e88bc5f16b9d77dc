// Real weights on the GPU emulator: the bits of the CPU.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

class GpuModels : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuModels, LogitsHaveTheBitsOfTheCpu) {
  const std::string path = test::model_path(GetParam());
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const std::vector<int32_t> ids = {1, 504};
  const auto logits = [&](bool gpu, int32_t chunk) {
    LoadOptions options;
    options.chunk = chunk;
    options.context = 256;
    if (gpu) options.backends = {gpu::make_backend(gpu::make_emulator())};
    Model model(path, options);
    test::OneSequence session(model);
    std::vector<std::vector<float>> rows;
    session.feed_all(
        std::span(ids).first(chunk == 1 ? 1 : ids.size()),
        [&](int32_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
    return rows;
  };
  const auto expected = logits(false, 2);
  EXPECT_EQ(logits(true, 2), expected);
  EXPECT_EQ(logits(true, 1).at(0), expected.at(0));
}

INSTANTIATE_TEST_SUITE_P(Real, GpuModels, ::testing::Values(test::kSmolLM2, test::kGemma3),
                         [](const auto& of) { return of.index == 0 ? "SmolLM2" : "Gemma3"; });

}  // namespace
}  // namespace veery

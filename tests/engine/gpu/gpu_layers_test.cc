// Models with the first layers on the CPU and the last layers on a GPU.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "kernels/cuda/machine.h"
#include "support/cuda/fake_cuda.h"
#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

constexpr int32_t kLayers = 2;
const std::vector<int32_t> kIds = {3, 17, 5, 40, 8, 22, 9, 9, 31};

std::string folder() { return test::fixture_path("tiny/llama-linear"); }
LoadOptions options_on(std::shared_ptr<Backend> backend, std::optional<int32_t> layers = {}) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = 4;
  if (backend) options.backends = {std::move(backend)};
  options.backend_layers = layers;
  return options;
}
std::vector<int32_t> greedy(const LoadOptions& options) {
  Model model(folder(), options);
  test::OneSequence session(model);
  session.feed(kIds);
  std::vector<int32_t> made(20);
  session.decode_greedy(1, made);
  return made;
}

TEST(CudaLayers, TextIsThatOfTheCpuForAnyNumber) {
  const std::vector<int32_t> expected = greedy(options_on(nullptr));
  for (int32_t n = 0; n <= kLayers + 1; ++n)
    EXPECT_EQ(
        greedy(options_on(gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0)), n)),
        expected)
        << n;
}

// Two GPUs share the layers, with and without some on the CPU: the bits of one GPU.
TEST(CudaLayers, APipelineOfTwoGpusGivesTheLogitsOfOne) {
  const std::string deep = test::fixture_path("tiny/smollm3");  // four layers
  for (const std::optional<int32_t> layers : {std::optional<int32_t>(), std::optional(3)}) {
    LoadOptions options = options_on(nullptr, layers);
    options.chunk = 16;
    options.backends = {gpu::make_backend(gpu::make_emulator()),
                        gpu::make_backend(gpu::make_emulator())};
    Model model(deep, options);
    ASSERT_EQ(model.places().size(), layers ? 3U : 2U);
    for (size_t i = 1; i < model.places().size(); ++i)
      EXPECT_LT(model.places()[i - 1].first_layer, model.places()[i].first_layer);
    LoadOptions on_one = options;
    on_one.backends.resize(1);
    Model single(deep, on_one);
    Session piped(model, {.sequences = 2, .positions = 512}),
        one(single, {.sequences = 2, .positions = 512});
    const RunPart parts[] = {{piped.open(), kIds, 2}, {piped.open(), std::span(kIds).first(3), 1}};
    const RunPart same[] = {{one.open(), kIds, 2}, {one.open(), std::span(kIds).first(3), 1}};
    for (int round = 0; round < 2; ++round) {  // prefill, then more tokens of the same sequences
      piped.run(parts);
      one.run(same);
      for (int32_t i = 0; i < 3; ++i) {
        const auto a = piped.logits(i), b = one.logits(i);
        EXPECT_TRUE(std::ranges::equal(a, b)) << i << " round " << round;
      }
    }
    EXPECT_EQ(piped.chain_steps({parts, 1}, false), 0);
  }
}

// Weights, caches and values of layers are where the layers are; the head is on the GPU.
TEST(CudaLayers, TheGpuHoldsWhatItsLayersHave) {
  size_t last = 0;
  for (int32_t n = 0; n <= kLayers; ++n) {
    const std::shared_ptr<Backend> backend =
        gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0));
    Model model(folder(), options_on(backend, n));
    ASSERT_EQ(model.config().layers, kLayers);
    EXPECT_EQ(model.places().back().first_layer, n == 0 ? 0 : kLayers - n);
    const size_t weights = backend->device().pool()->memory().active;
    if (n == 0) {
      EXPECT_EQ(model.runs_on_host(), true);
      EXPECT_EQ(weights, 0U);
      continue;
    }
    EXPECT_GT(weights, last) << n;
    last = weights;
    Session runner(model, {.positions = 256});
    const size_t caches = backend->device().pool()->memory().active - weights;
    EXPECT_EQ(runner.cache_bytes() / kLayers * static_cast<size_t>(n), caches) << n;
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      const std::string name = fmt::format("blk.{}.attn_k.weight", layer);
      const size_t own = n < kLayers && layer >= kLayers - n ? 1 : 0;
      for (size_t place = 0; place < model.places().size(); ++place)
        if (place == own)
          EXPECT_NO_THROW(static_cast<void>(model.params(place).at(name)));
        else
          EXPECT_THROW(static_cast<void>(model.params(place).at(name)), Error);
    }
    const RunPart part{runner.open(), kIds, 1, Wants::kBest};
    EXPECT_EQ(runner.chain_steps({&part, 1}, false), 0) << "a part of more than one token";
    const RunPart step{part.sequence, std::span(kIds).first(1), 1, Wants::kBest};
    EXPECT_EQ(runner.chain_steps({&step, 1}, false) > 0, n == kLayers)
        << "steps of a chain would not come back to the CPU";
  }
}

// Shared pages are copied before they are written, on both devices. Sequences saved with one split
// load with another.
TEST(GpuLayers, ForksAndSavedSequencesAreThoseOfTheCpu) {
  const auto logits = [&](const LoadOptions& options) {
    Model model(folder(), options);
    Session runner(model, {.sequences = 2});
    std::vector<float> rows;
    const auto run = [&](const RunPart& part) {
      runner.run({&part, 1});
      rows.insert(rows.end(), runner.logits(0).begin(), runner.logits(0).end());
    };
    const std::span<const int32_t> all(kIds);
    const int32_t first = runner.open();
    run({first, all.first(4), 1});
    const int32_t second = runner.fork(first, 3);
    run({second, all.subspan(5, 2), 1});
    run({first, all.subspan(4, 1), 1});
    runner.rewind(first, 2);
    run({first, all.subspan(7, 2), 1});
    return rows;
  };
  const auto expected = logits(options_on(nullptr));
  for (int32_t n = 1; n <= kLayers; ++n)
    EXPECT_EQ(logits(options_on(gpu::make_backend(gpu::make_emulator()), n)), expected) << n;
}

TEST(GpuLayers, InvalidSplitsAreRefused) {
  EXPECT_THROW(Model(folder(), options_on(gpu::make_backend(gpu::make_emulator()), -1)), Error);
}

}  // namespace
}  // namespace veery

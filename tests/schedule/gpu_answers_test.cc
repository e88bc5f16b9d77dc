// Answers on the emulator of GPUs, where tokens are chosen from the most probable ones: those of
// the CPU, which has all logits.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/gpu/gpu.h"
#include "schedule/generate.h"
#include "schedule/scheduler.h"
#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/small_model.h"

namespace veery {
namespace {

std::vector<GenerateRequest> requests() {
  std::vector<GenerateRequest> all(8);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].prompt = {static_cast<int32_t>(3 + i), 9, 14};
    all[i].options.max_tokens = 10;
    all[i].options.ignore_eos = true;
    all[i].options.sampling.seed = i;
  }
  const auto sampling = [&](size_t i) -> SamplerOptions& { return all[i].options.sampling; };
  sampling(1).temperature = 0;
  // More are left than are looked at first.
  sampling(2).temperature = sampling(3).temperature = 3;
  sampling(2).top_k = 0, sampling(2).min_p = 0, sampling(2).top_p = 0.9999F;
  sampling(3).top_k = 200, sampling(3).top_p = 1, sampling(3).min_p = 0;
  sampling(4).top_k = 0, sampling(4).top_p = 1, sampling(4).min_p = 0.1F;
  sampling(5).repeat_penalty = 1.3F;
  sampling(6).typical_p = 0.9F, sampling(6).xtc_probability = 0.5F;
  sampling(7).top_k = 5, sampling(7).dynatemp_range = 0.5F;
  return all;
}

using Answers = std::vector<std::vector<int32_t>>;

LoadOptions options_for(bool gpu) {
  LoadOptions options{.threads = 1, .context = 64, .chunk = 16};
  if (gpu) options.backend = gpu::make_backend(gpu::make_emulator());
  return options;
}

Answers answers(const std::string& path, const LoadOptions& options,
                std::span<const GenerateRequest> requests, int32_t slots,
                int64_t* chained_steps = nullptr) {
  Model loaded(path, options);
  // The emulator is slow: chains may take as long as they like.
  Scheduler scheduler(
      loaded, {.slots = slots, .longest_step = 1e9, .draft_tokens = slots == 1 ? kMostDrafted : 0});
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const GenerateRequest& request : requests) tickets.push_back(scheduler.submit(request));
  Answers all;
  for (const auto& ticket : tickets) {
    AnswerPart piece;
    while (ticket->next(piece)) {
    }
    all.push_back(ticket->result().ids);
  }
  // Counts are published behind the step that ends the last answer.
  while (scheduler.counts().finished < std::ssize(requests)) std::this_thread::yield();
  if (chained_steps != nullptr) *chained_steps = scheduler.counts().chained_steps;
  return all;
}

Answers answers(const test::SmallModel& model, bool gpu, std::span<const GenerateRequest> requests,
                int32_t slots, int64_t* chained_steps = nullptr) {
  return answers(model.path(), options_for(gpu), requests, slots, chained_steps);
}

TEST(GpuAnswers, AreThoseOfTheCpu) {
  const test::SmallModel model(DType::kQ8_0);
  const std::vector<GenerateRequest> all = requests();
  const Answers expected = answers(model, false, all, 8);
  EXPECT_EQ(answers(model, true, all, 8), expected);
  EXPECT_EQ(answers(model, true, std::span(all).first(3), 1),
            Answers(expected.begin(), expected.begin() + 3));
}

// Greedy ones are made several tokens at a time, of which some are behind an answer's end.
TEST(GpuAnswers, OfChainsAreThoseOfTheCpu) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> all(3);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].prompt = {static_cast<int32_t>(20 + i), 9, 14};
    all[i].options.max_tokens = 9 + 10 * static_cast<int64_t>(i);
    all[i].options.ignore_eos = true;
    all[i].options.sampling.temperature = 0;
  }
  const Answers expected = answers(model, false, all, 3);
  int64_t chained = 0;
  EXPECT_EQ(answers(model, true, all, 3, &chained), expected);
  EXPECT_GE(chained, 8);
  chained = 0;
  EXPECT_EQ(answers(model, true, all, 1, &chained), expected);
  EXPECT_GE(chained, 8);
  EXPECT_EQ(answers(model, false, all, 3, &chained), expected);
  EXPECT_EQ(chained, 0);  // the CPU has none
}

// The last layers on the GPU, which also finds the most probable tokens; prompts, steps, drafts.
TEST(GpuAnswers, AreThoseOfTheCpuForAnyNumberOfLayers) {
  const std::string folder = test::fixture_path("tiny/llama-linear");
  const std::vector<GenerateRequest> all = requests();
  const Answers expected = answers(folder, options_for(false), all, 8);
  for (const int32_t layers : {0, 1, 2, 99}) {
    LoadOptions options = options_for(true);
    options.backend_layers = layers;
    EXPECT_EQ(answers(folder, options, all, 8), expected) << layers;
    EXPECT_EQ(answers(folder, options, std::span(all).first(2), 1),
              Answers(expected.begin(), expected.begin() + 2))
        << layers;
  }
}

// All logits are wanted of one request, so those beside it are chosen from all as well.
TEST(GpuAnswers, AreThoseOfTheCpuBesideScores) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> all = requests();
  const Answers expected = answers(model, false, all, 8);
  all[0].logprobs = 2;
  EXPECT_EQ(answers(model, true, all, 8), expected);
}

}  // namespace
}  // namespace veery

// Answers on the emulator of GPUs, which samples from the most probable tokens, equal those of the
// CPU, which samples from all logits.
#include <gtest/gtest.h>

#include <thread>

#include "device/memory_pool.h"
#include "kernels/cuda/machine.h"
#include "kernels/gpu/gpu.h"
#include "schedule/generate.h"
#include "schedule/scheduler.h"
#include "support/cuda/fake_cuda.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/small_model.h"
#include "text/grammar/grammar.h"

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
  // The filters leave more candidates than the device returns at first.
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
  if (gpu) options.backends = {gpu::make_backend(gpu::make_emulator())};
  return options;
}

Answers answers(const std::string& path, const LoadOptions& options,
                std::span<const GenerateRequest> requests, int32_t slots,
                int64_t* chained_steps = nullptr) {
  Model loaded(path, options);
  // The emulator is slow, so chains may take any time.
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
  // Counts are published after the step that ends the last answer.
  while (scheduler.counts().finished() < std::ssize(requests)) std::this_thread::yield();
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

// Device memory ends during an answer: it fails, and the next answer is correct.
TEST(GpuAnswers, FailWhereMemoryEndsAndGoOnWhenThereIsSome) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> all = requests();
  all.resize(1);
  const Answers expected = answers(model, false, all, 2);
  LoadOptions options = options_for(false);
  options.backends = {gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0))};
  MemoryPool& pool = *options.backends[0]->device().pool();
  Model loaded(model.path(), options);
  Scheduler scheduler(loaded, {.slots = 2, .longest_step = 1e9, .draft_tokens = 0});
  const auto ids = [&] {
    const auto ticket = scheduler.submit(all[0]);
    AnswerPart piece;
    while (ticket->next(piece)) {
    }
    return ticket->result().ids;
  };
  pool.set_limit(pool.memory().active);
  EXPECT_THROW(ids(), OutOfDeviceMemory);
  pool.set_limit(SIZE_MAX);
  EXPECT_EQ(ids(), expected[0]);
}

// Greedy answers use chained decode; some chained tokens are after the end of an answer.
TEST(GpuAnswers, GreedyChainsEqualTheCpu) {
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

// So do sampled answers with penalties, together with greedy ones. Sometimes one needs more than
// the most probable tokens.
TEST(GpuAnswers, SampledChainsEqualTheCpu) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> all = requests();
  all.resize(6);
  for (size_t i = 0; i < all.size(); ++i)
    all[i].options.max_tokens = 12 + 9 * static_cast<int64_t>(i);
  all[0].options.sampling.bias = {{5, 3}, {9, -4}};
  all[4].options.sampling.frequency_penalty = 0.8F;
  const Answers expected = answers(model, false, all, 6);
  metal::FakeGpu metal;
  LoadOptions on_metal = options_for(false);
  on_metal.backends = {metal::make_fake_backend(metal)};
  EXPECT_EQ(answers(model.path(), on_metal, all, 6), expected) << "metal";
  EXPECT_EQ(metal.faults, "");
  int64_t chained = 0;
  EXPECT_EQ(answers(model, true, all, 6, &chained), expected);
  EXPECT_GE(chained, 12);
  // An answer whose tokens can rarely be sampled on the device.
  chained = 0;
  EXPECT_EQ(answers(model, true, std::span(all).subspan(2, 1), 1, &chained)[0], expected[2]);
  EXPECT_LE(chained, 12) << "is tried now and then";
}

// An answer ends on the device while others continue.
TEST(GpuAnswers, ChainsEndAtEndTokens) {
  const test::SmallModel model(DType::kQ8_0);
  const int32_t end = Model(model.path(), options_for(false)).tokenizer().special().ends.at(0);
  std::vector<GenerateRequest> all(6);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].prompt = {static_cast<int32_t>(30 + i), 9, 14};
    all[i].options.max_tokens = 40;
    all[i].options.sampling.seed = i;
    all[i].options.sampling.temperature = i % 3 == 0 ? 0.0F : 1.5F;
    all[i].options.sampling.bias = {{end, 1.0F + 0.5F * static_cast<float>(i)}};
    all[i].options.ignore_eos = i == 5;
  }
  const Answers expected = answers(model, false, all, 6);
  const auto ended = std::ranges::count_if(
      expected, [&](const auto& ids) { return ids.size() < 40 && ids.back() == end; });
  EXPECT_GE(ended, 2);
  EXPECT_EQ(expected[5].size(), 40U);
  int64_t chained = 0;
  EXPECT_EQ(answers(model, true, all, 6, &chained), expected);
  EXPECT_GE(chained, 8);
}

// Nobody reads parts of the answer: one submission after that of the prompt.
TEST(GpuAnswers, ThatAreReadAsAWholeAreOneSubmission) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> request(1);
  request[0].prompt = {3, 9, 14};
  request[0].options.max_tokens = 129;
  request[0].options.ignore_eos = true;
  request[0].options.sampling.seed = 4;
  LoadOptions options = options_for(false);
  options.context = 256;
  const Answers expected = answers(model.path(), options, request, 2);
  for (const bool whole : {true, false}) {
    request[0].whole = whole;
    if (!whole) request[0].options.max_tokens = 33;
    options.backends = {gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0))};
    Model loaded(model.path(), options);
    Scheduler scheduler(loaded, {.slots = 2, .longest_step = 0.02, .draft_tokens = 0});
    const std::vector<int32_t> ids = generate(scheduler, request[0]).ids;
    ASSERT_EQ(ids.size(), whole ? 129U : 33U);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected[0].begin()));
    if (whole)
      EXPECT_EQ(cuda::fake_state().runs, 2);
    else
      EXPECT_GT(cuda::fake_state().runs, 4) << "others may come";
  }
}

// On Metal, thread blocks do not see writes of other blocks of the same launch.
TEST(MetalAnswers, AreThoseOfTheCpu) {
  const test::SmallModel model(DType::kQ8_0);
  const std::vector<GenerateRequest> all = requests();
  metal::FakeGpu gpu;
  LoadOptions options = options_for(false);
  options.backends = {metal::make_fake_backend(gpu)};
  EXPECT_EQ(answers(model.path(), options, all, 8), answers(model, false, all, 8));
  EXPECT_EQ(gpu.faults, "");
  EXPECT_EQ(std::ranges::count(gpu.functions, "veery_top_k_select"), 1);
}

// Eight steps are one command buffer. Rows end at different steps, while others continue.
TEST(MetalAnswers, GreedyOnesAreChained) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> all = requests();
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].options.sampling = {};
    all[i].options.sampling.temperature = 0;
    all[i].options.max_tokens = static_cast<int32_t>(7 + 5 * i);
  }
  const Answers expected = answers(model, false, all, 3);
  for (const int32_t slots : {1, 3}) {
    metal::FakeGpu gpu;
    LoadOptions options = options_for(false);
    options.backends = {metal::make_fake_backend(gpu)};
    int64_t chained = 0;
    EXPECT_EQ(answers(model.path(), options, all, slots, &chained), expected) << slots;
    EXPECT_GT(chained, 10) << slots;
    EXPECT_EQ(gpu.faults, "");
    EXPECT_EQ(std::ranges::count(gpu.functions, "veery_chain_advance_greedy"), 1);
  }
}

// The last layers are on the GPU, which also finds the most probable tokens: prompts, steps,
// drafts.
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

// Constrained answers together with free ones: masks that allow few tokens, most tokens, or more
// than the device returns at first; and a draft that is verified token by token.
std::vector<GenerateRequest> held_requests(GrammarCompiler& grammars) {
  std::vector<GenerateRequest> all = requests();
  all.resize(6);
  all[4].options.sampling.temperature = 0;
  for (GenerateRequest& request : all) request.options.max_tokens = 25;
  all[0].grammar = grammars.regex("(yes|no|perhaps), [0-9]{3} times");
  all[1].grammar = grammars.json_schema(parse_json(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":9},
          "old":{"type":"boolean"}},"required":["name","old"]})",
      "schema"));
  all[2].grammar = grammars.regex("[^a]{9}");
  all[3].grammar = grammars.regex("a[^b]*b");
  all[3].options.ignore_eos = false;
  return all;
}

TEST(GpuAnswers, HeldToGrammarsAreThoseOfTheCpu) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  const test::SmallModel model(DType::kQ8_0);
  const Model named(model.path(), options_for(false));
  GrammarCompiler grammars(named.tokenizer(), named.config().vocab);
  std::vector<GenerateRequest> all = held_requests(grammars);
  const Answers expected = answers(model, false, all, 6);
  EXPECT_EQ(answers(model, true, all, 6), expected);
  {
    Model loaded(model.path(), options_for(true));
    Scheduler scheduler(loaded, {.slots = 1, .draft_tokens = 5, .always_draft = true});
    size_t accepted = 0;
    for (size_t i = 0; i < 4; ++i) {
      const Generation made = generate(scheduler, all[i]);
      EXPECT_EQ(made.ids, expected[i]) << i;
      accepted += made.accepted_tokens;
    }
    EXPECT_GT(accepted, 10U);
  }
  // One answer needs all logits, which the host then masks.
  all[3].options.sampling.repeat_penalty = 1.2F;
  EXPECT_EQ(answers(model, true, all, 6), answers(model, false, all, 6));
}

// A step has two submissions; the mask is computed between them.
TEST(GpuAnswers, HeldToAGrammarBringBackNoLogits) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  const test::SmallModel model(DType::kQ8_0);
  LoadOptions options = options_for(false);
  const Model named(model.path(), options);
  GrammarCompiler grammars(named.tokenizer(), named.config().vocab);
  std::vector<GenerateRequest> request(1);
  request[0].prompt = {3, 9, 14};
  request[0].grammar = grammars.regex("[a-f0-9]{20}");
  for (const float temperature : {0.0F, 0.9F}) {
    request[0].options.sampling.temperature = temperature;
    const Answers expected = answers(model.path(), options_for(false), request, 2);
    ASSERT_EQ(expected[0].size(), 21U);
    options.backends = {gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0))};
    Model loaded(model.path(), options);
    Scheduler scheduler(loaded, {.slots = 2, .draft_tokens = 0});
    EXPECT_EQ(generate(scheduler, request[0]).ids, expected[0]);
    EXPECT_EQ(cuda::fake_state().runs, 2 * 21);
    EXPECT_EQ(cuda::fake_state().copies, 3 * 21) << "most probable tokens, their logits, the mass";
  }
}

// One request needs all logits, so the others of the step are sampled from all logits, too.
TEST(GpuAnswers, AreThoseOfTheCpuBesideScores) {
  const test::SmallModel model(DType::kQ8_0);
  std::vector<GenerateRequest> all = requests();
  const Answers expected = answers(model, false, all, 8);
  all[0].logprobs = 2;
  EXPECT_EQ(answers(model, true, all, 8), expected);
}

}  // namespace
}  // namespace veery

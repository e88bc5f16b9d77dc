// The memory of served models: the plan from the header of a file equals the allocation of the
// loaded model, before and after requests, and a budget is kept or refused.
#include "serve/models/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "serve/models/models.h"
#include "serve/models/served_model.h"
#include "support/families.h"

namespace veery::serve {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kContext = test::LongModel::kContext;

class LongModel : public test::LongModel {
 public:
  using test::LongModel::LongModel;
  ModelSource source(int32_t slots = 3) const {
    ModelSource source{.id = "tiny", .path = path()};
    source.load.threads = 2;
    source.load.context = kContext;
    source.load.chunk = 64;
    source.scheduler = {.slots = slots, .kept = 4, .longest_step = 1};
    return source;
  }
};

GenerateRequest request_of(size_t prompt, int64_t tokens, uint64_t seed) {
  Random random(seed);
  GenerateRequest request;
  for (size_t i = 0; i < prompt; ++i)
    request.prompt.push_back(static_cast<int32_t>(random.next() % 61));
  request.options.max_tokens = tokens;
  request.options.ignore_eos = true;
  request.options.sampling.temperature = seed % 2 == 0 ? 0.0F : 0.8F;
  request.options.sampling.seed = seed;
  if (seed % 5 == 3) request.logprobs = 2, request.prompt_scores = true;
  return request;
}

Ids wait_for(Ticket& ticket) {
  AnswerPart piece;
  while (ticket.next(piece)) {
  }
  return ticket.result().ids;
}

// Answers different prompts that are together longer than the caches.
void ask(Scheduler& scheduler, size_t requests, size_t longest) {
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (uint64_t i = 0; i < requests; ++i) {
    const size_t prompt = i % 3 == 0 ? longest - 8 : 3 + 17 * (i % 9);
    tickets.push_back(scheduler.submit(request_of(prompt, 8, i)));
  }
  for (const auto& ticket : tickets) EXPECT_EQ(wait_for(*ticket).size(), 8U);
}

void use(ServedModel& model) {
  if (Scheduler* const scheduler = model.scheduler()) return ask(*scheduler, 7, 150);
  const std::vector<std::string> texts = {"rain", "The thrush sings at night, and then it rains."};
  if (model.embeds()) model.embed(texts);
  if (model.reranks()) model.rerank("bird", texts, "");
}

class MemoryPlans : public ::testing::TestWithParam<const char*> {};

TEST_P(MemoryPlans, PlannedBytesAreAllotted) {
  const LongModel files(GetParam());
  const bool encoder = std::string(GetParam()).starts_with("encoders");
  for (const DType type : {DType::kBF16, DType::kF32, DType::kQ8_0}) {
    ModelSource source = files.source();
    if (encoder) source.load.context = 0;
    source.load.cache_keys = source.load.cache_values = type;
    MemoryPlan plan;
    try {
      plan = plan_memory(source);
    } catch (const Error& error) {
      ASSERT_TRUE(type == DType::kQ8_0 && error.kind() == ErrorKind::kUnsupported) << error.what();
      continue;  // the width of the heads is not a multiple of 32
    }
    EXPECT_GT(plan.bytes.weights, 0U);
    EXPECT_GT(plan.bytes.activations.total(), 0U);
    ServedModel model(source.id, source.path, source.load, source.scheduler);
    EXPECT_EQ(plan.context, model.model().options().context);
    EXPECT_TRUE(model.bytes() == plan.bytes);
    use(model);
    EXPECT_TRUE(model.bytes() == plan.bytes)
        << model.bytes().caches << " " << plan.bytes.caches << " caches, "
        << model.bytes().activations.total() << " " << plan.bytes.activations.total()
        << " activations";
  }
}

TEST_P(MemoryPlans, ABudgetIsKeptOrRefused) {
  const LongModel files(GetParam());
  if (std::string(GetParam()).starts_with("encoders")) return;
  const MemoryPlan whole = plan_memory(files.source());
  size_t kept = 0, refused = 0;
  for (const double share : {1.0, 0.8, 0.6, 0.4, 0.2}) {
    const auto memory = static_cast<size_t>(static_cast<double>(whole.bytes.total()) * share);
    ModelSource source = files.source();
    try {
      const MemoryPlan plan = fit_memory(source, memory);
      EXPECT_LE(plan.bytes.total(), memory);
      EXPECT_EQ(refused, 0U) << "less memory is enough where more was not";
      ServedModel model(source.id, source.path, source.load, source.scheduler);
      EXPECT_TRUE(model.bytes() == plan.bytes);
      ask(*model.scheduler(), 9, share == 1.0 ? 200 : kContext);
      EXPECT_TRUE(model.bytes() == plan.bytes);
      ++kept;
    } catch (const CachesTooSmall& error) {
      ++refused;
      const std::string said = error.what();
      EXPECT_NE(said.find(fmt::format("{}", memory)), std::string::npos) << said;
      EXPECT_NE(said.find("positions"), std::string::npos) << said;
    }
  }
  EXPECT_GT(kept, 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryPlans,
                         ::testing::Values("tiny/llama-linear", "tiny/gemma3", "tiny/qwen3next",
                                           "tiny/mamba2", "tiny/xlstm", "tiny/deepseek-v2",
                                           "draft_heads/qwen35", "encoders/bert-mean",
                                           "encoders/bert-rerank"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '/'; }, '_');
                           return name;
                         });

TEST(MemoryBudgets, SettingsWithoutAFlagAreReduced) {
  const LongModel files("tiny/gemma3");
  ModelSource source = files.source(8);
  source.load.context = 0;
  source.scheduler.fewer_slots = true;
  const MemoryPlan whole = plan_memory(source);
  bool slots = false, context = false;
  for (double share = 0.97; share > 0.1; share *= 0.97) {
    ModelSource small = source;
    try {
      const MemoryPlan plan =
          fit_memory(small, static_cast<size_t>(static_cast<double>(whole.bytes.total()) * share));
      slots = slots || plan.note.find("answers at a time") != std::string::npos;
      context = context || plan.note.find("the context is") != std::string::npos;
      EXPECT_EQ(plan.note.empty(), plan.slots == 8 && plan.context == whole.context);
    } catch (const CachesTooSmall&) {
      break;
    }
  }
  EXPECT_TRUE(slots);
  EXPECT_TRUE(context);
}

TEST(MemoryBudgets, ARefusalSaysWhatWouldFit) {
  const LongModel files("tiny/llama-linear");
  ModelSource source = files.source();
  const MemoryPlan whole = plan_memory(source);
  source.load.context = 256;
  const size_t small = plan_memory(source).bytes.total();
  source.load.context = kContext;
  ASSERT_LT(small, whole.bytes.total());
  ModelSource least = files.source();
  least.load.context = 256;
  least.scheduler.kept = 1;
  const size_t memory = plan_memory(least).bytes.total();
  try {
    fit_memory(source, memory);
    FAIL() << "it fits into " << memory;
  } catch (const CachesTooSmall& error) {
    EXPECT_NE(std::string(error.what()).find("-c "), std::string::npos) << error.what();
  }
}

// Memory for one of several models: they are loaded in turn, and no request fails.
TEST(MemoryBudgets, ASwapKeepsTheBudget) {
  const LongModel one("tiny/gemma3"), two("tiny/lfm2");
  ModelSource first = one.source(), second = two.source();
  second.id = "other";
  const size_t memory =
      std::max(plan_memory(first).bytes.total(), plan_memory(second).bytes.total());
  Models models({.memory = memory, .wait_timeout = 1});
  models.add(first);
  models.add(second);
  for (int turn = 0; turn < 6; ++turn) {
    {
      const Models::Lease model = models.find(turn % 2 == 0 ? "tiny" : "other");
      ask(*model->scheduler(), 3, 100);
    }
    size_t loaded = 0;
    for (const Models::View& view : models.all())
      if (view.model) loaded += view.model->bytes().total();
    EXPECT_LE(loaded, memory);
  }
}

// Both models are loaded though the sum of their bytes exceeds the limit: one arena holds the
// activations of either.
TEST(MemoryBudgets, AnArenaThatModelsShareCountsOnce) {
  const LongModel one("tiny/gemma3"), two("tiny/llama-linear");
  ModelSource first = one.source(), second = two.source();
  second.id = "other";
  const ModelBytes a = plan_memory(first).bytes, b = plan_memory(second).bytes;
  ModelBytes both = a;
  both.add(b);
  ASSERT_LT(both.total(), a.total() + b.total());
  Models models({.memory = both.total(), .wait_timeout = 1});
  models.add(first);
  models.add(second);
  const Models::Lease model = models.find("tiny"), other = models.find("other");
  ASSERT_EQ(&model->model().executor(), &other->model().executor());
  ask(*model->scheduler(), 3, 100);
  ask(*other->scheduler(), 3, 100);
  Executor& executor = model->model().executor();
  const std::shared_ptr<Arena> arena =
      executor.arena(model->model().places().front().backend->device());
  EXPECT_EQ(arena->bytes(), both.activations.arenas.begin()->second);
  EXPECT_TRUE(model->bytes() == a);
  EXPECT_TRUE(other->bytes() == b);

  Models tight({.memory = both.total() - 1, .wait_timeout = 0.1});
  tight.add(first);
  tight.add(second);
  const Models::Lease used = tight.find("tiny");
  EXPECT_THROW(tight.find("other"), NoRoom);
}

}  // namespace
}  // namespace veery::serve

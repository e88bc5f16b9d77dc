// Models that share an executor: their results are those of separate models, whoever runs at the
// same time, and their activations are in the same memory.
#include "engine/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "base/error.h"
#include "engine/session.h"
#include "kernels/gpu/gpu.h"
#include "support/gpu_machine.h"
#include "support/models.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;
constexpr const char* kModels[] = {"tiny/llama-linear", "tiny/smollm3", "tiny/gemma3"};
constexpr size_t kModelsOnGpu = 2;

LoadOptions options_on(std::shared_ptr<Executor> executor) {
  return {.executor = std::move(executor), .threads = 2, .context = 128, .chunk = 32};
}

Ids prompt_of(size_t length, int32_t seed) {
  Ids ids;
  for (size_t i = 0; i < length; ++i) ids.push_back((seed + 7 * static_cast<int32_t>(i)) % 50);
  return ids;
}

// Prefills prompts of several lengths and decodes a few tokens after each, some of them greedily.
// Returns all logits and tokens.
std::vector<float> answers(Session& session, int rounds) {
  std::vector<float> all;
  for (int round = 0; round < rounds; ++round) {
    const Ids ids = prompt_of(static_cast<size_t>(3 + 9 * (round % 4)), round);
    const int32_t sequence = session.open();
    const RunPart prompt{sequence, ids, 1};
    session.run({&prompt, 1});
    for (int step = 0; step < 3; ++step) {
      std::this_thread::yield();  // others may run before the logits are read
      const std::span<const float> logits = session.logits(0);
      all.insert(all.end(), logits.begin(), logits.end());
      const int32_t token = argmax(logits);
      const RunPart next{sequence, {&token, 1}, 1};
      session.run({&next, 1});
    }
    const int32_t token = 1;
    const RunPart greedy{sequence, {&token, 1}, 1, Wants::kBest};
    session.run({&greedy, 1});
    all.push_back(static_cast<float>(session.best(0)));
    session.close(sequence);
  }
  return all;
}

std::vector<float> answers_alone(const std::string& name, int rounds, LoadOptions options) {
  Model model(test::fixture_path(name), options);
  Session session(model);
  return answers(session, rounds);
}

std::shared_ptr<Backend> emulated_gpu() { return gpu::make_backend(gpu::make_emulator()); }

/// On the CPU, or on one emulated GPU that all models share.
class Executors : public ::testing::TestWithParam<bool> {
 protected:
  LoadOptions options(std::shared_ptr<Executor> executor) const {
    LoadOptions result = options_on(std::move(executor));
    if (backend_) result.backends = {backend_};
    return result;
  }
  static std::span<const char* const> names() {
    return std::span(kModels).first(GetParam() ? kModelsOnGpu : std::size(kModels));
  }
  static LoadOptions separate_options() {
    LoadOptions result = options_on(nullptr);
    if (GetParam()) result.backends = {emulated_gpu()};
    return result;
  }
  std::shared_ptr<Backend> backend_ = GetParam() ? emulated_gpu() : nullptr;
  const int rounds_ = GetParam() ? 4 : 12;
};

TEST_P(Executors, ModelsOnSeveralThreadsGiveTheResultsOfSeparateOnes) {
  std::vector<std::vector<float>> expected;
  for (const char* name : names())
    expected.push_back(answers_alone(name, rounds_, separate_options()));
  const auto executor = std::make_shared<Executor>(2);
  std::vector<std::unique_ptr<Model>> models;
  for (const char* name : names())
    models.push_back(std::make_unique<Model>(test::fixture_path(name), options(executor)));
  constexpr size_t kUsers = 2;  // of each model
  std::vector<std::vector<float>> got(kUsers * models.size());
  std::vector<std::thread> users;
  for (size_t i = 0; i < got.size(); ++i)
    users.emplace_back([&, i] {
      Session session(*models[i % models.size()]);
      got[i] = answers(session, rounds_);
    });
  for (std::thread& user : users) user.join();
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == expected[i % models.size()]) << kModels[i % models.size()];
}

// Other models are loaded, run and destroyed while one runs: its plans are made again when the
// arena is replaced.
TEST_P(Executors, AModelRunsWhileOthersComeAndGo) {
  const std::vector<float> expected = answers_alone(kModels[0], rounds_, separate_options());
  const auto executor = std::make_shared<Executor>(2);
  Model model(test::fixture_path(kModels[0]), options(executor));
  Session session(model);
  std::atomic<bool> over{false};
  std::thread others([&] {
    for (int i = 0; !over; ++i) {
      Model other(test::fixture_path(kModels[1 + static_cast<size_t>(i) % (names().size() - 1)]),
                  options(executor));
      Session own(other, {.sequences = 3});
      answers(own, 1 + i % 3);
    }
  });
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(answers(session, rounds_) == expected);
  over = true;
  others.join();
  EXPECT_TRUE(answers(session, rounds_) == expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, Executors, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Gpu" : "Cpu"; });

TEST(SharedExecutor, ActivationsOfModelsAreInOneArena) {
  const auto executor = std::make_shared<Executor>(1);
  Model one(test::fixture_path(kModels[0]), options_on(executor)),
      two(test::fixture_path(kModels[1]), options_on(executor));
  SessionOptions first, second;
  first.activations = measure_activations(one, first);
  second.activations = measure_activations(two, second);
  const size_t a = first.activations.places[0].values, b = second.activations.places[0].values;
  ASSERT_NE(a, b);
  const std::shared_ptr<Arena> arena = executor->arena(one.backend().device());
  ASSERT_EQ(arena, executor->arena(two.backend().device()));
  EXPECT_EQ(arena->bytes(), 0U) << "measuring takes no memory";
  auto session = std::make_unique<Session>(one, first);
  EXPECT_EQ(arena->bytes(), a);
  {
    Session other(two, second);
    EXPECT_EQ(arena->bytes(), std::max(a, b));
    answers(other, 2);
    answers(*session, 2);
    EXPECT_EQ(arena->bytes(), std::max(a, b));
    EXPECT_EQ(other.activation_bytes().total(),
              second.activations.places[0].values + second.activations.places[0].results);
  }
  EXPECT_EQ(arena->bytes(), a);
  session.reset();
  EXPECT_EQ(arena->bytes(), 0U);
}

TEST(SharedExecutor, ResultsStayWhileOthersRun) {
  const auto executor = std::make_shared<Executor>(2);
  Model one(test::fixture_path(kModels[0]), options_on(executor)),
      two(test::fixture_path(kModels[1]), options_on(executor));
  Session first(one), second(two);
  const Ids ids = prompt_of(20, 3);
  const RunPart part{first.open(), ids, 2};
  first.run({&part, 1});
  const std::span<const float> logits = first.logits(1);
  const std::vector<float> before(logits.begin(), logits.end());
  answers(second, 4);
  EXPECT_TRUE(std::ranges::equal(first.logits(1), before));
}

// Throws while a run on the GPU waits for it.
class BadMask : public TokenMask {
 public:
  void fill(const TokenMaskRows&) override { throw Error(ErrorKind::kInput, "no mask"); }
};

TEST(SharedExecutor, AnExceptionInARunLeavesTheOthersWorking) {
  const auto executor = std::make_shared<Executor>(2);
  LoadOptions options = options_on(executor);
  options.backends = {emulated_gpu()};
  Model one(test::fixture_path(kModels[0]), options), two(test::fixture_path(kModels[1]), options);
  Session bad(one), good(two);
  const std::vector<float> expected = answers(good, 2);
  const int32_t sequence = bad.open();
  const Ids ids = prompt_of(5, 1);
  BadMask mask;
  RunPart part{sequence, ids, 1, Wants::kTop};
  part.mask = &mask;
  EXPECT_THROW(bad.run({&part, 1}), Error);
  const Ids outside = {100000};
  const RunPart unknown{sequence, outside, 1};
  EXPECT_THROW(bad.run({&unknown, 1}), Error);
  std::thread other([&] { EXPECT_TRUE(answers(good, 2) == expected); });
  other.join();
  part.mask = nullptr;
  EXPECT_EQ(bad.position(sequence), 0);
  EXPECT_NO_THROW(bad.run({&part, 1}));
}

TEST(SharedExecutor, ModelsKeepIt) {
  auto executor = std::make_shared<Executor>(2);
  const std::weak_ptr<Executor> watched = executor;
  {
    Model model(test::fixture_path(kModels[0]), options_on(std::move(executor)));
    EXPECT_FALSE(watched.expired());
    Model changed(model, [](ModelFile&, TransformerConfig&) {});
    EXPECT_EQ(&changed.executor(), &model.executor());
    EXPECT_EQ(model.threads(), 2);
  }
  EXPECT_TRUE(watched.expired());
}

// The values of requested roots are those of a run that requests them alone.
TEST(RequestedRoots, APartNamesThem) {
  for (const bool on_gpu : {false, true}) {
    LoadOptions options = options_on(nullptr);
    if (on_gpu) options.backends = {emulated_gpu()};
    options.entry = [](ModelFile& file, const TransformerConfig& config) {
      Entry entry = decode_entry(file, config);
      for (const char* name : {"blk.0.out", "blk.1.out"})
        for (NodeId id = 0; id < entry.graph.size(); ++id)
          if (entry.graph[id].name == name) entry.roots[name] = id;
      return entry;
    };
    Model model(test::fixture_path(kModels[0]), options);
    Session session(model, {.sequences = 3});
    EXPECT_THROW(session.root("blk.77.out"), Error);
    const RootId roots[] = {session.root("blk.0.out"), session.root("blk.1.out")};
    EXPECT_EQ(session.root("blk.0.out"), roots[0]);
    const Ids ids = prompt_of(6, 2);
    const auto run = [&](const RunPart& part) {
      session.run({&part, 1});
      std::vector<float> all;
      for (const RootId root : part.roots)
        for (int64_t i = 0; i < 6; ++i)
          all.insert(all.end(), session.row(root, i).begin(), session.row(root, i).end());
      return all;
    };
    const std::span both(roots);
    const std::vector<float> first =
        run({.sequence = session.open(), .ids = ids, .roots = both.first(1)});
    const std::vector<float> last =
        run({.sequence = session.open(), .ids = ids, .wants = Wants::kBest, .roots = both.last(1)});
    ASSERT_FALSE(first.empty());
    EXPECT_NE(first, last);
    session.close(0);
    session.close(1);
    // Two parts that request different roots, and logits besides them.
    const RunPart parts[] = {
        {.sequence = session.open(), .ids = ids, .wants = Wants::kTop, .roots = both.first(1)},
        {.sequence = session.open(), .ids = ids, .wants = Wants::kTop, .roots = both.last(1)},
        {.sequence = session.open(), .ids = ids, .wants = Wants::kTop}};
    session.run(parts);
    const size_t cols = first.size() / 6;
    for (int64_t i = 0; i < 6; ++i)
      for (const size_t of : {size_t{0}, size_t{1}}) {
        const std::span<const float> row = session.row(roots[of], 6 * static_cast<int64_t>(of) + i);
        const std::vector<float>& expected = of == 0 ? first : last;
        EXPECT_TRUE(std::ranges::equal(
            row, std::span(expected).subspan(static_cast<size_t>(i) * cols, cols)));
      }
    EXPECT_TRUE(std::ranges::equal(session.logits(0), session.logits(2)));
    const size_t plans = session.plans();
    for (const RunPart& part : parts) session.rewind(part.sequence, 0);
    session.run(parts);
    EXPECT_EQ(session.plans(), plans);
  }
}

}  // namespace
}  // namespace veery

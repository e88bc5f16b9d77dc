// Speculative decoding: drafts change the speed of an answer, but not its tokens.
#include "schedule/drafts/draft.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "base/json.h"
#include "convert/as_gguf.h"
#include "convert/quantize.h"
#include "file/folder/folder.h"
#include "schedule/drafts/head_draft.h"
#include "schedule/generate.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

Ids ids_of(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

TEST(LookupDraft, ProposesWhatFollowedTheSameTokens) {
  LookupDraft draft;
  const Ids tokens{1, 2, 3, 4, 5, 6, 9, 2, 3};
  EXPECT_EQ(ids_of(draft.propose(tokens, 3)), (Ids{4, 5, 6}));
  EXPECT_TRUE(draft.propose(tokens, 0).empty());
}

TEST(LookupDraft, PrefersTheLongestEndingAndTheLastPlace) {
  LookupDraft draft;
  EXPECT_EQ(ids_of(draft.propose(Ids{1, 2, 7, 3, 2, 8, 1, 2, 9, 3, 2}, 1)), (Ids{8}));
  LookupDraft longer;  // 5 1 2 occurs before another 1 2
  EXPECT_EQ(ids_of(longer.propose(Ids{5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2}, 1)), (Ids{7}));
}

TEST(LookupDraft, GoesOnWithWhatRepeats) {
  LookupDraft draft;
  EXPECT_EQ(ids_of(draft.propose(Ids{4, 1, 2, 3, 1, 2}, 7)), (Ids{3, 1, 2, 3, 1, 2, 3}));
}

TEST(LookupDraft, ProposesNothingThatWasNeverThere) {
  LookupDraft draft;
  EXPECT_TRUE(draft.propose(Ids{}, 4).empty());
  EXPECT_TRUE(draft.propose(Ids{1}, 4).empty());
  EXPECT_TRUE(draft.propose(Ids{1, 2, 3, 4}, 4).empty());
  EXPECT_EQ(ids_of(draft.propose(Ids{1, 2, 3, 4, 2}, 2)), (Ids{3, 4}));
}

TEST(LookupDraft, CountsHowOftenItIsRight) {
  LookupDraft right, wrong;
  Ids tokens;
  for (int32_t i = 0; i < 200; ++i) {
    tokens.push_back(i % 5);
    right.propose(tokens, 4);
  }
  EXPECT_GT(right.rate(), 0.95);
  tokens.clear();
  for (int32_t i = 0; i < 200; ++i) {  // the token after 1 2 is always new
    tokens.insert(tokens.end(), {1, 2});
    wrong.propose(tokens, 4);
    tokens.push_back(100 + i);
    wrong.propose(tokens, 4);
  }
  tokens.insert(tokens.end(), {1, 2});
  wrong.propose(tokens, 4);
  EXPECT_LT(wrong.rate(), 0.05);
}

TEST(LookupDraft, IsSurerAfterLongMatches) {
  LookupDraft draft;
  Ids tokens;
  const auto add = [&](std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      tokens.push_back(id);
      draft.propose(tokens, 4);
    }
  };
  const Ids quoted{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6};
  add(quoted);
  for (int32_t i = 0; i < 30; ++i) {
    add(Ids{100 + i, 3, 1, 200 + i});  // the token after 3 1 is new after a short match
    add(quoted);
  }
  add(Ids{99, 3, 1});
  const double uncertain = draft.rate();
  EXPECT_LT(uncertain, 0.5);
  add(Ids{4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2});
  EXPECT_GT(draft.rate(), 0.75) << "one in six is wrong: where the quotation ends";
  EXPECT_EQ(ids_of(draft.propose(tokens, 3)), (Ids{3, 8, 4}));
}

TEST(LookupDraft, KeepsToThePlaceThatItFollows) {
  LookupDraft draft;
  Ids tokens{1, 2, 3, 4, 5, 6, 7, 8, 20, 4, 5, 9, 9, 21, 1, 2};  // 9 follows the last 4 5
  EXPECT_EQ(ids_of(draft.propose(tokens, 3)), (Ids{3, 4, 5}));
  tokens.insert(tokens.end(), {3, 4, 5});
  EXPECT_EQ(ids_of(draft.propose(tokens, 3)), (Ids{6, 7, 8}));
}

TEST(LookupDraft, IsSurerOfWhatComesBehindMoreThatIsRight) {
  LookupDraft draft;
  draft.propose(Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2}, 8);
  EXPECT_LT(draft.rate(0), draft.rate(1));
  EXPECT_LT(draft.rate(1), draft.rate(7));
}

TEST(DraftLength, TakesARateForEachToken) {
  DraftLength length;
  for (int32_t rows = 1; rows <= 16; ++rows) length.record(rows, 1 + 0.2 * rows);
  const std::array<double, 3> rising{0.5, 0.99, 0.99}, falling{0.99, 0.99, 0.01};
  EXPECT_EQ(length.best(rising, 1), 3);
  EXPECT_EQ(length.best(falling, 1), 2);
  EXPECT_LT(length.best(0.5, 1, 3), 3);
}

TEST(DraftLength, GrowsWithTheRateAndShrinksWithTheCost) {
  DraftLength cheap, dear;
  for (int i = 0; i < 10; ++i)
    for (int32_t rows = 1; rows <= 16; ++rows) {
      cheap.record(rows, 1 + 0.02 * rows);
      dear.record(rows, rows);
    }
  EXPECT_EQ(cheap.best(0.99, 1, kMostDrafted), kMostDrafted);
  EXPECT_EQ(cheap.best(0.99, 1, 4), 4);
  EXPECT_LT(cheap.best(0.5, 1, kMostDrafted), kMostDrafted);
  EXPECT_GT(cheap.best(0.5, 1, kMostDrafted), 0);
  EXPECT_EQ(cheap.best(0, 1, kMostDrafted), 0);
  EXPECT_EQ(dear.best(0.99, 1, kMostDrafted), 0);
  EXPECT_LT(cheap.best(0.8, 1, kMostDrafted, 0.3), cheap.best(0.8, 1, kMostDrafted));
  EXPECT_EQ(cheap.best(0.99, 1, kMostDrafted, 2), 0);
  EXPECT_EQ(DraftLength().best(1, 1, kMostDrafted), 0) << "nothing is known yet";
}

// Unmeasured times are extrapolated, and unmeasured lengths are tried by doubling.
TEST(DraftLength, TriesLongerDraftsStepByStep) {
  DraftLength length;
  length.record(1, 1);
  EXPECT_EQ(length.best(0.99, 1, kMostDrafted), 3);
  length.record(4, 1.3);
  EXPECT_EQ(length.best(0.99, 1, kMostDrafted), 9);
  length.record(10, 9);
  EXPECT_EQ(length.best(0.99, 1, kMostDrafted), 8) << "9 rows by what 1 and 4 took: 1.8";
  length.record(8, 8);
  EXPECT_EQ(length.best(0.99, 1, kMostDrafted), 6);
  length.record(7, 8);
  length.record(5, 8);
  EXPECT_EQ(length.best(0.99, 1, kMostDrafted), 3);
}
TEST(DraftLength, OneSlowRunIsForgotten) {
  DraftLength length;
  length.record(1, 1);
  length.record(4, 9);
  EXPECT_LT(length.best(0.99, 1, 3), 3);
  for (int i = 0; i < 30; ++i) length.record(4, 1.2);
  EXPECT_EQ(length.best(0.99, 1, 3), 3);
}

class Drafts : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string path() { return test::fixture_path(GetParam()); }
  static GenerateRequest request(float temperature, uint64_t seed) {
    GenerateRequest request;
    for (int32_t i = 0; i < 40; ++i) request.prompt.push_back(3 + i % 7);
    request.options.max_tokens = 60;
    request.options.ignore_eos = true;
    request.options.sampling.temperature = temperature;
    request.options.sampling.top_k = 2;
    request.options.sampling.seed = seed;
    return request;
  }
  static Generation answer(Model& model, const GenerateRequest& request, SchedulerOptions options) {
    options.slots = 2;
    options.kept = 1;
    Scheduler scheduler(model, options);
    return generate(scheduler, request);
  }

  Model model_{path(), {.threads = 1, .context = 128, .chunk = 64}};
};

TEST_P(Drafts, ChangeNoAnswer) {
  const auto draft_model =
      std::make_shared<Model>(path(), LoadOptions{.threads = 1, .context = 128, .chunk = 32});
  size_t drafted = 0;
  for (const float temperature : {0.0F, 0.7F})
    for (const uint64_t seed : {1, 2, 3}) {
      const GenerateRequest asked = request(temperature, seed);
      const Generation without = answer(model_, asked, {.draft_tokens = 0});
      EXPECT_EQ(without.drafted_tokens, 0U);
      for (const bool by_model : {false, true}) {
        const Generation with = answer(model_, asked,
                                       {.draft_tokens = 5,
                                        .always_draft = true,
                                        .draft_model = by_model ? draft_model : nullptr});
        EXPECT_EQ(with.ids, without.ids) << temperature << " " << by_model;
        drafted += with.drafted_tokens;
        if (by_model && temperature == 0 && with.drafted_tokens > 0) {
          EXPECT_EQ(with.accepted_tokens, with.drafted_tokens) << "of the model itself";
        }
      }
    }
  EXPECT_GT(drafted, 0U);
}

// The cached prefix has the tokens of the answer, not those of a rejected draft.
TEST_P(Drafts, LeaveNothingBehind) {
  const GenerateRequest first = request(0.7F, 5);
  const auto two_turns = [&](const SchedulerOptions& options) {
    Scheduler scheduler(model_, options);
    const Generation one = generate(scheduler, first);
    GenerateRequest second = first;
    second.prompt.insert(second.prompt.end(), one.ids.begin(), one.ids.begin() + 21);
    second.options.max_tokens = 20;
    return generate(scheduler, second).ids;
  };
  EXPECT_EQ(two_turns({.slots = 1, .kept = 1, .draft_tokens = 9, .always_draft = true}),
            two_turns({.slots = 1, .kept = 1, .draft_tokens = 0}));
}

// drafts.json: drafts by the MTP layers of transformers (tools/oracle/draft_head.py).
void expect_drafts(const std::string& path, const std::string& fixture, bool exact) {
  Model model(path, {.threads = 1, .context = 128, .chunk = 16, .exact = exact});
  ASSERT_TRUE(HeadDraft::possible(model));
  const auto layer = HeadDraft::make_model(model);
  HeadDraft head(*layer, HeadDraft::session_options(model, 2));
  const Json all = read_json_file(fixture + "/drafts.json");
  for (const Json& expected : all["prompts"]) {
    Session session(model);
    const RootId root = session.root(HeadDraft::kRoot);
    const int32_t sequence = session.open();
    auto ids = expected["ids"].get<Ids>();
    const auto count = static_cast<int32_t>(ids.size());
    ids.push_back(expected["next"].get<int32_t>());
    for (int32_t begin = 0; begin < count; begin += 16) {
      const auto rows = static_cast<size_t>(std::min(16, count - begin));
      const RunPart part{.sequence = sequence,
                         .ids = std::span(ids).subspan(static_cast<size_t>(begin), rows),
                         .wants = Wants::kBest,
                         .roots = {&root, 1}};
      session.run({&part, 1});
      std::vector<float> hidden;
      for (size_t i = 0; i < rows; ++i) {
        const auto row = session.row(root, static_cast<int64_t>(i));
        hidden.insert(hidden.end(), row.begin(), row.end());
      }
      head.show(&ids, begin, std::span(ids).subspan(static_cast<size_t>(begin) + 1, rows), hidden);
    }
    EXPECT_EQ(session.best(0), ids.back());
    const auto drafts = expected["drafts"].get<Ids>();
    DraftRequest request{&ids, ids, static_cast<int32_t>(drafts.size()), {}};
    head.propose({&request, 1});
    EXPECT_EQ(request.draft, drafts) << count;
    head.propose({&request, 1});
    EXPECT_TRUE(request.draft.empty()) << "nothing was shown since";
    head.forget(&ids);
  }
}

class HeadDrafts : public ::testing::TestWithParam<const char*> {};

TEST_P(HeadDrafts, AreThoseOfTheReference) {
  const std::string fixture = test::fixture_path("draft_heads/" + std::string(GetParam()));
  expect_drafts(fixture, fixture, true);
  const ModelFile converted = open_as_gguf(fixture);
  const test::TemporaryFolder folder;
  const std::string path = folder.file("model.gguf");
  ThreadPool pool(1);
  const std::vector<TensorPlan> plans = keep_types(converted);
  write_quantized(converted, plans, retyped_metadata(converted, plans), path, pool, {});
  expect_drafts(path, fixture, true);
}

// The head is shown the hidden states of the accepted tokens of each run.
TEST_P(HeadDrafts, AreRightInAnswersWhereTheReferenceIs) {
  const std::string fixture = test::fixture_path("draft_heads/" + std::string(GetParam()));
  const Json all = read_json_file(fixture + "/drafts.json");
  const Json& expected = all["answer"];
  Model model(fixture, {.threads = 1, .context = 64, .chunk = 4, .exact = true});
  Scheduler scheduler(model, {.slots = 2, .draft_tokens = 1, .always_draft = true});
  GenerateRequest request;
  request.prompt = expected["ids"].get<Ids>();
  const auto tokens = expected["answer"].get<Ids>();
  request.options.max_tokens = static_cast<int32_t>(tokens.size());
  request.options.sampling.temperature = 0;
  request.options.ignore_eos = true;
  const Generation made = generate(scheduler, request);
  EXPECT_EQ(made.ids, tokens);
  EXPECT_EQ(made.accepted_tokens, expected["right"].get<size_t>());
}

INSTANTIATE_TEST_SUITE_P(Models, HeadDrafts, ::testing::Values("qwen35", "qwen35moe"));

INSTANTIATE_TEST_SUITE_P(Models, Drafts,
                         ::testing::Values("tiny/qwen3", "tiny/gemma3", "tiny/qwen35",
                                           "tiny/deepseek-v2", "tiny/gpt-oss", "tiny/mamba2",
                                           "tiny/xlstm", "tiny/lfm2", "tiny/rwkv7", "tiny/jamba",
                                           "draft_heads/qwen35"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// With memory for the states of three positions drafts have two tokens; with one, none.
TEST(DraftsOfRecurrentModels, AreAsLongAsThereIsMemoryForStates) {
  Model model(test::fixture_path("tiny/qwen35"), {.threads = 1, .context = 128});
  GenerateRequest asked{.prompt = {3, 4, 5, 6, 3, 4, 5, 6, 3, 4}};
  asked.options.max_tokens = 40;
  asked.options.ignore_eos = true;
  asked.options.sampling.temperature = 0;
  asked.options.sampling.bias = {{5, 1000}};  // so that it repeats itself
  std::vector<size_t> accepted;
  for (const size_t states : {1, 3, 8}) {
    Scheduler scheduler(model, {.slots = 2,
                                .cache_bytes = 8 * 2 * states * state_bytes(model.config()),
                                .draft_tokens = 4,
                                .always_draft = true});
    const Generation answer = generate(scheduler, asked);
    EXPECT_EQ(answer.ids, Ids(40, 5));
    EXPECT_EQ(answer.drafted_tokens > 0, states > 1);
    accepted.push_back(answer.accepted_tokens);
  }
  EXPECT_GT(accepted[1], 20U);
  EXPECT_LE(accepted[1], 26U) << "two of three";
  EXPECT_GT(accepted[2], accepted[1]);
}

TEST(DraftsOfText, StopStringsAndTheContextEndAnswersAllTheSame) {
  test::TinyModel file;
  Model model(file.path(), {.threads = 1});
  const auto answer = [&](const GenerateRequest& request, bool draft) {
    Scheduler scheduler(model, {.slots = 1, .draft_tokens = draft ? 7 : 0, .always_draft = true});
    return generate(scheduler, request);
  };
  GenerateRequest asked{.prompt = {'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b'}};
  asked.options.ignore_eos = true;
  asked.options.sampling.temperature = 0;
  asked.options.sampling.bias = {{'a', 4}, {'b', 4}};  // so that it repeats itself
  const Generation whole = answer(asked, false);
  EXPECT_EQ(whole.ids.size(), test::TinyModel::kContext - asked.prompt.size());
  const Generation drafted = answer(asked, true);
  EXPECT_EQ(drafted.ids, whole.ids);
  EXPECT_GT(drafted.accepted_tokens, 0U);
  for (size_t begin = 5; begin < 30; begin += 4) {
    asked.options.stops = {whole.text.substr(begin, 5)};
    const Generation without = answer(asked, false);
    const Generation with = answer(asked, true);
    EXPECT_EQ(without.finish, FinishReason::kStop);
    EXPECT_EQ(with.finish, without.finish);
    EXPECT_EQ(with.text, without.text);
    EXPECT_EQ(with.ids, without.ids);
  }
}

TEST(DraftsOfText, ForcedTextIsVerifiedAsADraft) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  test::TinyModel file;
  Model model(file.path(), {.threads = 1});
  GrammarCompiler grammars(model.tokenizer(), model.config().vocab);
  GenerateRequest asked{.prompt = {'a', 'b', 'c'}};
  asked.grammar = grammars.regex("(the same|a thing) beginning: [0-9]{3} and an end");
  for (const float temperature : {0.0F, 1.0F}) {
    asked.options.sampling.temperature = temperature;
    const auto answer = [&](int32_t most) {
      Scheduler scheduler(model, {.slots = 1, .draft_tokens = most, .always_draft = true});
      return generate(scheduler, asked);
    };
    const Generation without = answer(0), with = answer(9);
    EXPECT_EQ(with.text, without.text);
    EXPECT_EQ(with.ids, without.ids);
    EXPECT_TRUE(with.text.ends_with(" and an end")) << with.text;
    EXPECT_GE(with.accepted_tokens, 15U);
  }
}

TEST(DraftRate, FollowsWhatIsAccepted) {
  DraftRate rate(0.7);
  for (int i = 0; i < 50; ++i) rate.record(0, 4);
  EXPECT_LT(rate.value(), 0.05);
  for (int i = 0; i < 300; ++i) rate.step();
  EXPECT_GT(rate.value(), 0.6);
  for (int i = 0; i < 10; ++i) rate.record(4, 4);
  EXPECT_GT(rate.value(), 0.95);
}

TEST(ModelDraft, AnotherVocabularyIsRefused) {
  test::TinyModel file;
  Model model(file.path(), {.threads = 1});
  const auto other =
      std::make_shared<Model>(test::fixture_path("tiny/qwen3"), LoadOptions{.threads = 1});
  try {
    Scheduler(model, {.draft_model = other});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("cannot draft for"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace veery

#include "schedule/generate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using test::TinyModel;

class Generate : public ::testing::Test {
 protected:
  Generation run(const GenerateOptions& options, const OnText& on_text = {}) {
    return fresh(model_, prompt_, options, on_text);
  }
  static Generation fresh(Model& model, const std::vector<int32_t>& prompt,
                          const GenerateOptions& options, const OnText& on_text = {}) {
    Scheduler scheduler(model, single_user());
    return generate(scheduler, {.prompt = prompt, .options = options}, on_text);
  }
  static GenerateOptions greedy(int64_t tokens) {
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = tokens;
    options.ignore_eos = true;
    return options;
  }

  TinyModel file_;
  Model model_{file_.path(), {.threads = 1}};
  std::vector<int32_t> prompt_{TinyModel::kBos, 'a', 'b', 'c'};
};

TEST_F(Generate, ChainDecodeEqualsStepByStep) {
  const Generation chain = run(greedy(40));
  test::OneSequence session(model_);
  session.feed(prompt_);
  std::vector<int32_t> ids;
  while (ids.size() < 40) {
    ids.push_back(argmax(session.logits()));
    session.feed({&ids.back(), 1});
  }
  EXPECT_EQ(chain.ids, ids);
  EXPECT_EQ(chain.finish, FinishReason::kLength);
}

TEST_F(Generate, APenaltyThatChangesNothingLeavesGreedyTextAlone) {
  GenerateOptions options = greedy(20);
  const auto chain = run(options).ids;
  options.sampling.repeat_penalty = 1.0000001F;  // uses the sampler
  EXPECT_EQ(run(options).ids, chain);
}

TEST_F(Generate, StreamedPiecesAreTheText) {
  GenerateOptions options = greedy(60);
  options.sampling.temperature = 1.5F;  // gives much malformed UTF-8
  std::string streamed;
  const Generation result = run(options, [&](std::string_view text) {
    streamed += text;
    return true;
  });
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.ids.size(), 60U);
}

TEST_F(Generate, EndsBeforeAStopString) {
  GenerateOptions options = greedy(40);
  const std::string text = run(options).text;
  ASSERT_GT(text.size(), 12U);
  options.stops = {text.substr(6, 3)};
  const Generation result = run(options);
  EXPECT_EQ(result.text, text.substr(0, text.find(options.stops[0])));
  EXPECT_EQ(result.finish, FinishReason::kStop);
}

TEST_F(Generate, StopsAtTheEndOfTheContext) {
  GenerateOptions options = greedy(1000);
  for (float temperature : {0.0F, 1.0F}) {
    options.sampling.temperature = temperature;
    const Generation result = run(options);
    EXPECT_EQ(result.ids.size(), TinyModel::kContext - prompt_.size());
    EXPECT_EQ(result.finish, FinishReason::kLength);
  }
}

TEST_F(Generate, NoTokensAndOneToken) {
  EXPECT_TRUE(run(greedy(0)).ids.empty());
  EXPECT_EQ(run(greedy(1)).ids.size(), 1U);
}

TEST_F(Generate, RefusesAPromptThatIsEmptyOrTooLong) {
  EXPECT_THROW(fresh(model_, {}, greedy(1)), Error);
  try {
    fresh(model_, std::vector<int32_t>(65, 1), greedy(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_STREQ(error.what(), "the prompt has 65 tokens, the context holds 64");
  }
  // Without room for an answer, a prompt can only be scored.
  EXPECT_THROW(fresh(model_, std::vector<int32_t>(64, 1), greedy(5)), Error);
  EXPECT_TRUE(fresh(model_, std::vector<int32_t>(64, 1), greedy(0)).ids.empty());
  EXPECT_EQ(fresh(model_, std::vector<int32_t>(63, 1), greedy(5)).ids.size(), 1U);
}

TEST_F(Generate, ReusesTheCommonPrefixAndAnswersTheSame) {
  std::vector<int32_t> next = prompt_;
  {
    Scheduler scheduler(model_, single_user());
    const auto ask = [&](const std::vector<int32_t>& prompt) {
      return generate(scheduler, {.prompt = prompt, .options = greedy(10)});
    };
    const Generation first = ask(prompt_);
    EXPECT_EQ(first.reused_tokens, 0U);
    next.insert(next.end(), first.ids.begin(), first.ids.begin() + 5);
    next.push_back('!');
    const Generation again = ask(next);
    EXPECT_EQ(again.reused_tokens, prompt_.size() + 5);
    EXPECT_EQ(again.prompt_tokens, 1U);
    // The same prompt again: only its last token is run.
    const Generation once_more = ask(next);
    EXPECT_EQ(once_more.prompt_tokens, 1U);
    EXPECT_EQ(once_more.ids, again.ids);
    prompt_ = again.ids;
  }
  EXPECT_EQ(fresh(model_, next, greedy(10)).ids, prompt_);
}

TEST_F(Generate, ASavedSessionIsGoneOnWithByAnotherScheduler) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("session");
  const auto ask = [&](Scheduler& scheduler, const std::vector<int32_t>& prompt) {
    return generate(scheduler, {.prompt = prompt, .options = greedy(10)});
  };
  std::vector<int32_t> all = prompt_;
  {
    Scheduler scheduler(model_, single_user());
    const Generation first = ask(scheduler, prompt_);
    all.insert(all.end(), first.ids.begin(), first.ids.end());
    // The last token of the answer was not run.
    EXPECT_EQ(scheduler.save(all, "note", path), std::ssize(all) - 1);
    EXPECT_THROW(scheduler.save(std::vector<int32_t>{-1}, "", path), Error);
  }
  Scheduler scheduler(model_, single_user());
  EXPECT_THROW(scheduler.load(folder.file("none")), Error);
  const SavedSequence saved = scheduler.load(path);
  EXPECT_EQ(saved.ids, all);
  EXPECT_EQ(saved.note, "note");
  all.push_back('!');
  const Generation next = ask(scheduler, all);
  EXPECT_EQ(next.reused_tokens, all.size() - 2);
  EXPECT_EQ(next.ids, fresh(model_, all, greedy(10)).ids);
  // Tokens without cached state are saved, too. A scheduler for one user can load the file.
  EXPECT_EQ(scheduler.save(std::vector<int32_t>{1, 2}, "", folder.file("other")), 0);
  EXPECT_EQ(scheduler.load(folder.file("other")).ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(scheduler.load(path).positions, std::ssize(all) - 2);
}

TEST_F(Generate, AnExceptionOfTheListenerDoesNotSpoilTheNextAnswer) {
  const std::vector<int32_t> expected = run(greedy(10)).ids;
  Scheduler scheduler(model_, single_user());
  const GenerateRequest request{.prompt = prompt_, .options = greedy(10)};
  const OnText fail = [](std::string_view) -> bool { throw Error(ErrorKind::kIo, "full"); };
  EXPECT_THROW(generate(scheduler, request, fail), Error);
  EXPECT_EQ(generate(scheduler, request).ids, expected);
}

TEST_F(Generate, TheListenerCanEndIt) {
  Scheduler scheduler(model_, single_user());
  GenerateRequest request{.prompt = prompt_, .options = greedy(30)};
  request.notify = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  const Generation result = generate(scheduler, request, [](std::string_view) { return false; });
  EXPECT_EQ(result.finish, FinishReason::kCancelled);
  EXPECT_LT(result.ids.size(), 30U);
}

TEST_F(Generate, TheListenerCanEndALongPrompt) {
  Model model(file_.path(), {.threads = 1, .chunk = 1});
  const std::vector<int32_t> prompt(TinyModel::kContext - 1, 'a');
  const GenerateRequest request{.prompt = prompt, .options = greedy(10)};
  std::vector<int32_t> ids;
  // On a busy machine all of the prompt may have been run before this thread continues.
  for (int attempt = 0; ids.empty() && attempt < 50; ++attempt) {
    Scheduler scheduler(model, single_user());
    const auto ticket = scheduler.submit(request);
    ticket->cancel();
    for (AnswerPart part; ticket->next(part);) {
    }
    if (ticket->result().finish != FinishReason::kCancelled) continue;
    EXPECT_TRUE(ticket->result().ids.empty());
    EXPECT_LT(ticket->result().prompt_tokens, prompt.size());
    // Tokens that were run are not run again.
    const Generation again = generate(scheduler, request);
    EXPECT_EQ(again.reused_tokens, ticket->result().prompt_tokens);
    EXPECT_EQ(again.prompt_tokens + again.reused_tokens, prompt.size());
    ids = again.ids;
  }
  EXPECT_EQ(ids, fresh(model, prompt, greedy(10)).ids);
}

// A conversation with a recurrent model, whose state cannot be rewound to any position.
TEST(GenerateRecurrent, OnlyWhatIsNewIsRead) {
  Model model(test::fixture_path("tiny/qwen35"), {.threads = 1});
  const GenerateOptions options{.max_tokens = 12, .ignore_eos = true};
  const auto ask = [&](Scheduler& scheduler, const std::vector<int32_t>& prompt) {
    return generate(scheduler, {.prompt = prompt, .options = options});
  };
  const std::vector<int32_t> first(30, 5), question(6, 9);
  std::vector<int32_t> third = first, ids;
  {
    Scheduler scheduler(model, single_user());
    const Generation one = ask(scheduler, first);
    EXPECT_EQ(one.reused_tokens, 0U);
    // The next prompt has the whole answer.
    std::vector<int32_t> second = first;
    second.insert(second.end(), one.ids.begin(), one.ids.end());
    second.insert(second.end(), question.begin(), question.end());
    const Generation two = ask(scheduler, second);
    EXPECT_EQ(two.reused_tokens, first.size() + one.ids.size() - 1);
    // A template drops the answer: rewind to the end of the first prompt.
    third.insert(third.end(), question.begin(), question.end());
    const Generation three = ask(scheduler, third);
    EXPECT_EQ(three.reused_tokens, first.size());
    ids = three.ids;
  }
  Scheduler anew(model, single_user());
  EXPECT_EQ(ask(anew, third).ids, ids);
}

TEST_F(Generate, EndTokensStopUnlessIgnored) {
  // At this temperature all tokens are about equally likely.
  GenerateOptions options;
  options.sampling = {.top_p = 1, .min_p = 0, .top_k = 0, .temperature = 1000};
  int ended = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    options.sampling.seed = seed;
    const Generation result = run(options);
    const bool has_end = result.ids.back() == TinyModel::kEos;
    EXPECT_EQ(result.finish, has_end ? FinishReason::kStop : FinishReason::kLength);
    EXPECT_EQ(result.text.find("</s>"), std::string::npos);
    ended += has_end;
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, 60);
  options.ignore_eos = true;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    options.sampling.seed = seed;
    EXPECT_EQ(run(options).finish, FinishReason::kLength);
  }
}

TEST(RecommendedSampling, TakesWhatTheFileSays) {
  Metadata metadata;
  metadata.set("general.sampling.temp", 0.25);
  metadata.set("general.sampling.top_k", int64_t{7});
  const SamplerOptions options = recommended_sampling(metadata);
  EXPECT_EQ(options.temperature, 0.25F);
  EXPECT_EQ(options.top_k, 7);
  EXPECT_EQ(options.top_p, SamplerOptions().top_p);
}

}  // namespace
}  // namespace veery

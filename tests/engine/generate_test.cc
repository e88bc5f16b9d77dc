#include "engine/generate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using test::TinyModel;

class Generate : public ::testing::Test {
 protected:
  Generation run(const GenerateOptions& options, const OnText& on_text = {}) {
    return Generator(model_).generate(prompt_, options, on_text);
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
  Session session(model_);
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
  options.sampling.repeat_penalty = 1.0000001F;  // takes the path that samples
  EXPECT_EQ(run(options).ids, chain);
}

TEST_F(Generate, StreamedPiecesAreTheText) {
  GenerateOptions options = greedy(60);
  options.sampling.temperature = 1.5F;  // malformed UTF-8 in plenty
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
    // All positions are taken, and the last token of all comes out of the last one.
    EXPECT_EQ(result.ids.size(), TinyModel::kContext - prompt_.size() + 1);
    EXPECT_EQ(result.finish, FinishReason::kLength);
  }
}

TEST_F(Generate, NoTokensAndOneToken) {
  EXPECT_TRUE(run(greedy(0)).ids.empty());
  EXPECT_EQ(run(greedy(1)).ids.size(), 1U);
}

TEST_F(Generate, RefusesAPromptThatIsEmptyOrTooLong) {
  Generator generator(model_);
  EXPECT_THROW(generator.generate({}, greedy(1)), Error);
  try {
    generator.generate(std::vector<int32_t>(65, 1), greedy(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_STREQ(error.what(), "the prompt has 65 tokens, the context holds 64");
  }
  EXPECT_EQ(generator.generate(std::vector<int32_t>(64, 1), greedy(5)).ids.size(), 1U);
}

TEST_F(Generate, ReusesTheCommonPrefixAndAnswersTheSame) {
  Generator generator(model_);
  const Generation first = generator.generate(prompt_, greedy(10));
  EXPECT_EQ(first.reused_tokens, 0U);
  std::vector<int32_t> next = prompt_;
  next.insert(next.end(), first.ids.begin(), first.ids.begin() + 5);
  next.push_back('!');
  const Generation again = generator.generate(next, greedy(10));
  EXPECT_EQ(again.reused_tokens, prompt_.size() + 5);
  EXPECT_EQ(again.prompt_tokens, 1U);
  EXPECT_EQ(again.ids, Generator(model_).generate(next, greedy(10)).ids);
  // The same prompt once more: its last token is run again.
  EXPECT_EQ(generator.generate(next, greedy(10)).prompt_tokens, 1U);
}

TEST_F(Generate, AnExceptionOfTheListenerDoesNotSpoilTheNextAnswer) {
  Generator generator(model_);
  const OnText fail = [](std::string_view) -> bool { throw Error(ErrorKind::kIo, "full"); };
  EXPECT_THROW(generator.generate(prompt_, greedy(10), fail), Error);
  EXPECT_EQ(generator.generate(prompt_, greedy(10)).ids, run(greedy(10)).ids);
}

TEST_F(Generate, TheListenerCanEndIt) {
  int calls = 0;
  const Generation result = run(greedy(30), [&](std::string_view) { return ++calls < 3; });
  EXPECT_EQ(result.finish, FinishReason::kCancelled);
  EXPECT_EQ(result.ids.size(), 3U);
}

TEST_F(Generate, TheListenerCanEndALongPrompt) {
  Model model(file_.path(), {.threads = 1, .chunk = 2});
  const std::vector<int32_t> prompt{TinyModel::kBos, 'a', 'b', 'c', 'd', 'e', 'f'};
  Generator generator(model);
  int calls = 0;
  const Generation ended = generator.generate(prompt, greedy(10), [&](std::string_view text) {
    EXPECT_EQ(text, "");
    return ++calls < 2;
  });
  EXPECT_EQ(ended.finish, FinishReason::kCancelled);
  EXPECT_EQ(ended.prompt_tokens, 4U);
  EXPECT_TRUE(ended.ids.empty());
  // What was run is not run again.
  const Generation again = generator.generate(prompt, greedy(10));
  EXPECT_EQ(again.reused_tokens, 4U);
  EXPECT_EQ(again.ids, Generator(model).generate(prompt, greedy(10)).ids);
}

TEST_F(Generate, EndTokensStopUnlessIgnored) {
  // A temperature so high that every token is about as likely as any other.
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

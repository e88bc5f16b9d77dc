// Tokens that a request allows, bans or delays, and the ends of its answer.
#include "schedule/selection/token_rules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/answer_text.h"
#include "schedule/generate.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using test::TinyModel;

std::vector<int32_t> kept(const TokenRules& rules, const std::vector<int32_t>& made) {
  std::vector<float> logits(TinyModel::kVocabulary);
  rules.mask(made, logits);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < TinyModel::kVocabulary; ++id)
    if (std::isfinite(logits[static_cast<size_t>(id)])) ids.push_back(id);
  return ids;
}

TEST(TokenRules, AllowBanAndPutOffTokens) {
  const TinyModel file;
  const Model model(file.path(), {.threads = 1});
  const auto rest = [&](GenerateOptions options, const std::vector<int32_t>& made) {
    const TokenRules rules(model.tokenizer(), options);
    EXPECT_TRUE(rules.active(std::ssize(made)));
    return kept(rules, made);
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(rest({.allowed = {3, 7, 200}}, {}), (Ids{3, 7, 200}));
  EXPECT_EQ(rest({.allowed = {3, 7}, .banned = {{7}, {1, 3}}}, {1}), Ids());
  EXPECT_EQ(rest({.allowed = {3, 7}, .banned = {{1, 3}, {5, 1, 7}}}, {5, 1}), Ids());
  EXPECT_EQ(rest({.allowed = {3, 7}, .banned = {{1, 3}, {6, 1, 7}}}, {5, 1}), (Ids{7}));
  EXPECT_EQ(rest({.stop_ids = {9}, .min_tokens = 2, .allowed = {8, 9, TinyModel::kEos}}, {1}),
            (Ids{8}));
  const GenerateOptions off{.stop_ids = {9}, .min_tokens = 2};
  EXPECT_FALSE(TokenRules(model.tokenizer(), off).active(2));
  EXPECT_EQ(kept(TokenRules(model.tokenizer(), off), {1, 2}).size(),
            static_cast<size_t>(TinyModel::kVocabulary));
}

struct Ended {
  std::string text;
  FinishReason reason;
  int32_t stop_id;
};

Ended feed(const Model& model, const GenerateOptions& options, const std::string& bytes) {
  AnswerText text(model.tokenizer(), options);
  Ended ended;
  for (size_t i = 0; i < bytes.size() && !text.over(); ++i)
    ended.text += text.accept(bytes[i] == '$' ? TinyModel::kEos : static_cast<uint8_t>(bytes[i]));
  ended.text += text.finish();
  ended.reason = text.reason();
  ended.stop_id = text.stop_id();
  return ended;
}

TEST(AnswerText, EndsAtStopTokensAndTextsButNotTooEarly) {
  const TinyModel file;
  const Model model(file.path(), {.threads = 1});
  EXPECT_EQ(feed(model, {.stop_ids = {'c'}}, "abcd").text, "ab");
  EXPECT_EQ(feed(model, {.stop_ids = {'c'}}, "abcd").stop_id, 'c');
  EXPECT_EQ(feed(model, {.stop_ids = {'c'}, .keep_stop = true}, "abcd").text, "abc");
  EXPECT_EQ(feed(model, {.ignore_eos = true, .stop_ids = {'c'}}, "a$cd").text, "a");
  EXPECT_EQ(feed(model, {.stops = {"bc"}, .keep_stop = true}, "abcd").text, "abc");
  EXPECT_EQ(feed(model, {.stops = {"bc"}, .min_tokens = 3}, "abcdbce").text, "abcd");
  EXPECT_EQ(feed(model, {.stop_ids = {'b'}, .min_tokens = 2}, "abcbd").text, "abc");
  // The beginning of a stop text before a stop token is part of the text.
  EXPECT_EQ(feed(model, {.stops = {"bx"}, .stop_ids = {'c'}, .keep_stop = true}, "abc").text,
            "abc");
  EXPECT_EQ(feed(model, {.ignore_eos = true, .show_special = true}, "a$b").text, "a</s>b");
  EXPECT_EQ(feed(model, {}, "a$b").text, "a");
}

TEST(TokenRules, HoldAnAnswer) {
  const TinyModel file;
  Model model(file.path(), {.threads = 1});
  Scheduler scheduler(model, single_user());
  GenerateRequest request{.prompt = {TinyModel::kBos, 'a'}};
  request.options.sampling.temperature = 0;
  request.options.max_tokens = 12;
  request.options.ignore_eos = true;
  request.options.allowed = {'x', 'y'};
  const std::string text = generate(scheduler, request).text;
  EXPECT_EQ(text.size(), 12U);
  EXPECT_EQ(text.find_first_not_of("xy"), std::string::npos);
  request.options.banned = {{'x', 'x'}, {'y', 'y'}};
  const std::string alternating = generate(scheduler, request).text;
  for (size_t i = 1; i < alternating.size(); ++i) EXPECT_NE(alternating[i], alternating[i - 1]);
  request.options = {.max_tokens = 20, .min_tokens = 6};
  request.options.sampling.temperature = 0;
  request.options.sampling.bias = {{TinyModel::kEos, 1000}};
  EXPECT_EQ(generate(scheduler, request).ids.size(), 7U);
}

}  // namespace
}  // namespace veery

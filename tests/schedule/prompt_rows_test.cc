// The size of prefill chunks: all answers continue in each step, and a step keeps to its time.
#include "schedule/prompt_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <string>

#include "schedule/scheduler.h"
#include "support/models.h"

namespace veery {
namespace {

// The time of a row grows with the tokens before it, as in attention.
double seconds_of(int32_t rows, int32_t before) {
  return rows * (2.5e-4 + 1.2e-7 * (before + 0.5 * rows));
}

TEST(PromptRows, KeepToTheLongestStepOfALongPrompt) {
  PromptRows rows(0.1, 4096);
  EXPECT_EQ(rows.next(), 4 * PromptRows::kLeast) << "nothing is known yet";
  int32_t before = 0, steps = 0;
  while (before < 16000) {
    const int32_t next = rows.next();
    const double seconds = seconds_of(next, before);
    EXPECT_LT(seconds, 0.12) << before;
    if (steps++ > 1) {
      EXPECT_GT(seconds, 0.09) << before;
    }
    rows.record(next, seconds);
    before += next;
  }
}

TEST(PromptRows, OneSlowStepIsForgotten) {
  PromptRows rows(0.1, 4096);
  rows.record(200, 0.1);
  EXPECT_EQ(rows.next(), 200);
  rows.record(200, 0.3);
  EXPECT_EQ(rows.next(), 66);
  for (int i = 0; i < 6; ++i) rows.record(rows.next(), rows.next() * 5e-4);
  EXPECT_NEAR(rows.next(), 200, 10);
}

TEST(PromptRows, AreSomeHoweverSlowAndNoMoreThanARunHas) {
  PromptRows rows(0.1, 256);
  rows.record(100, 50);
  EXPECT_EQ(rows.next(), PromptRows::kLeast);
  rows.record(PromptRows::kLeast - 1, 1e-6);
  EXPECT_EQ(rows.next(), PromptRows::kLeast) << "few rows say nothing of many";
  PromptRows quick(0.1, 256);
  quick.record(100, 1e-3);
  EXPECT_EQ(quick.next(), 256);
  EXPECT_EQ(PromptRows(0.1, 8).next(), 8);
  PromptRows small(0.1, 8);
  small.record(100, 50);
  EXPECT_EQ(small.next(), 8);
}

GenerateRequest request_of(size_t prompt, int64_t tokens, char name) {
  GenerateRequest request;
  for (size_t i = 0; i < prompt; ++i)  // no common prefix with other prompts
    request.prompt.push_back(static_cast<int32_t>((i * i + 7 * static_cast<size_t>(name)) % 61));
  request.options.max_tokens = tokens;
  request.options.ignore_eos = true;
  request.options.sampling.seed = static_cast<uint64_t>(name);
  request.logprobs = 0;  // a part for each token, also for one without text
  return request;
}

void wait_for(Ticket& ticket) {
  AnswerPart piece;
  while (ticket.next(piece)) {
  }
}

// One letter for each token of the answers a, b and c, in the order of delivery, from the
// submission of another prompt until it was evaluated.
std::string tokens_beside_a_prompt(double longest_step, size_t prompt) {
  Model model(test::fixture_path("tiny/qwen3"), {.threads = 1, .context = 128, .chunk = 64});
  std::promise<void> submitted;
  const std::shared_future<void> all_there = submitted.get_future().share();
  std::string order;  // written by the scheduler's thread
  std::shared_ptr<Ticket> late;
  {
    Scheduler scheduler(model, {.slots = 4, .positions = 4096, .longest_step = longest_step});
    for (const char name : {'x', 'y'}) wait_for(*scheduler.submit(request_of(60, 1, name)));
    const auto submit = [&](char name, const std::function<void()>& more) {
      GenerateRequest request = request_of(name == 'P' ? prompt : 9, name == 'P' ? 2 : 60, name);
      request.notify = [&order, name, more] {
        order += name;
        more();
      };
      return scheduler.submit(std::move(request));
    };
    const auto come = [&] {
      if (!late && std::ranges::count(order, 'c') == 10) {
        order.clear();
        late = submit('P', [] {});
      }
    };
    const std::vector tickets{submit('a', [all_there] { all_there.wait(); }), submit('b', [] {}),
                              submit('c', come)};
    submitted.set_value();
    for (const auto& ticket : tickets) wait_for(*ticket);
    wait_for(*late);
  }
  return order.substr(0, order.find('P'));
}

std::string rounds(int32_t count) {
  std::string all;
  for (int32_t i = 0; i < count; ++i) all += "abc";
  return all;
}

TEST(PromptBesideAnswers, LeavesEachAnswerATokenInEachStep) {
  EXPECT_EQ(tokens_beside_a_prompt(1e-9, 120), rounds(8)) << "pieces of 16, as no step is short";
  EXPECT_EQ(tokens_beside_a_prompt(1e9, 120), rounds(2)) << "pieces of 61, as a run has 64 rows";
}

}  // namespace
}  // namespace veery

// Many requests at once: an answer does not depend on other requests, cached prefixes or
// preemption.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "sample/sampler.h"
#include "schedule/generate.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

Ids random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

GenerateRequest request_of(Ids prompt, int64_t tokens, float temperature, uint64_t seed = 0) {
  GenerateRequest request{std::move(prompt), {}};
  request.options.max_tokens = tokens;
  request.options.ignore_eos = true;
  request.options.sampling.temperature = temperature;
  request.options.sampling.seed = seed;
  return request;
}

// Reads all parts and returns the ids of the answer.
Ids wait_for(Ticket& ticket) {
  AnswerPart piece;
  while (ticket.next(piece)) {
  }
  return ticket.result().ids;
}

Ids alone(Model& model, const GenerateRequest& request) {
  Scheduler scheduler(model, single_user());
  return generate(scheduler, request).ids;
}

class Schedule : public ::testing::TestWithParam<const char*> {
 protected:
  Model model_{test::fixture_path("tiny/" + std::string(GetParam())),
               {.threads = 1, .context = 128, .chunk = 64}};
};

TEST_P(Schedule, RequestsGiveWhatTheyGiveAlone) {
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 12; ++i)
    requests.push_back(request_of(random_ids(3 + 23 * (i % 4), i), 5 + static_cast<int64_t>(i) * 3,
                                  i % 3 == 0 ? 0.0F : 0.9F, i));
  std::vector<Ids> expected;
  for (const GenerateRequest& request : requests) expected.push_back(alone(model_, request));
  Scheduler scheduler(model_, {.slots = 5});
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const GenerateRequest& request : requests) tickets.push_back(scheduler.submit(request));
  for (size_t i = 0; i < tickets.size(); ++i) EXPECT_EQ(wait_for(*tickets[i]), expected[i]) << i;
  const SchedulerCounts counts = scheduler.counts();
  EXPECT_EQ(counts.requests, 12);
}

TEST_P(Schedule, PromptsThatBeginAlikeAreNotComputedAgain) {
  const Ids start = random_ids(60, 7);
  Scheduler scheduler(model_, {.slots = 3});
  for (uint64_t i = 0; i < 4; ++i) {
    Ids prompt = start;
    const Ids more = random_ids(9, 100 + i);
    prompt.insert(prompt.end(), more.begin(), more.end());
    const GenerateRequest request = request_of(prompt, 12, 0.7F, i);
    const Ids expected = alone(model_, request);
    const auto ticket = scheduler.submit(request);
    EXPECT_EQ(wait_for(*ticket), expected);
    // The next turn begins with this answer.
    prompt.insert(prompt.end(), expected.begin(), expected.end());
    prompt.push_back(3);
    const GenerateRequest next = request_of(prompt, 8, 0);
    const Ids following = alone(model_, next);
    const auto again = scheduler.submit(next);
    EXPECT_EQ(wait_for(*again), following);
    EXPECT_GE(again->result().reused_tokens, 69U);
    EXPECT_EQ(again->result().reused_tokens + again->result().prompt_tokens, prompt.size());
  }
}

// Memory for three sequences and eight answers: some are preempted and computed again.
TEST_P(Schedule, PreemptedAnswersAreTheSame) {
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 8; ++i)
    requests.push_back(request_of(random_ids(60, i), 40, i % 2 == 0 ? 0.0F : 1.0F, i));
  std::vector<Ids> expected;
  for (const GenerateRequest& request : requests) expected.push_back(alone(model_, request));
  Scheduler scheduler(model_, {.slots = 8, .kept = 2, .positions = 768});
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const GenerateRequest& request : requests) tickets.push_back(scheduler.submit(request));
  for (size_t i = 0; i < tickets.size(); ++i) EXPECT_EQ(wait_for(*tickets[i]), expected[i]) << i;
}

TEST_P(Schedule, ScoresDoNotChangeWhatIsChosen) {
  GenerateRequest request = request_of(random_ids(90, 3), 10, 0.8F, 4);
  const Ids expected = alone(model_, request);
  request.logprobs = 3;
  request.prompt_scores = true;
  Scheduler scheduler(model_, {.slots = 2});
  const auto ticket = scheduler.submit(request);
  std::vector<ScoredToken> scores;
  for (AnswerPart piece; ticket->next(piece);)
    scores.insert(scores.end(), piece.scores.begin(), piece.scores.end());
  EXPECT_EQ(ticket->result().ids, expected);
  ASSERT_EQ(scores.size(), expected.size());
  test::OneSequence session(model_);
  std::vector<ScoredToken> all;
  Ids ids = request.prompt;
  ids.insert(ids.end(), expected.begin(), expected.end() - 1);
  session.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
    const auto next = static_cast<size_t>(position) + 1;
    all.push_back(score_token(logits, next < ids.size() ? ids[next] : expected.back(), 3));
  });
  const std::vector<ScoredToken>& prompt = ticket->prompt_scores();
  ASSERT_EQ(prompt.size(), request.prompt.size());
  EXPECT_EQ(prompt[0].token.id, -1);
  const auto same = [](const ScoredToken& a, const ScoredToken& b) {
    ASSERT_EQ(a.top.size(), 3U);
    EXPECT_EQ(a.token.id, b.token.id);
    EXPECT_EQ(a.token.logprob, b.token.logprob);
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(a.top[k].id, b.top[k].id);
    EXPECT_GE(a.top[0].logprob, a.top[1].logprob);
  };
  for (size_t i = 1; i < prompt.size(); ++i) same(prompt[i], all[i - 1]);
  for (size_t i = 0; i < scores.size(); ++i) same(scores[i], all[prompt.size() - 1 + i]);
}

// Scores of choices equal those of a session, whatever else runs and however small the chunks are.
// The sequence is rewound, so that the next request finds its prompt.
TEST_P(Schedule, ChoicesAreScoredAsTexts) {
  const std::vector<Ids> choices = {{5}, {7, 8}, {7, 8, 9}, {7, 9, 11}, random_ids(70, 5), {3, 3}};
  std::vector<Ids> prompts;
  for (uint64_t i = 0; i < 5; ++i) prompts.push_back(random_ids(9 + 5 * i, i % 2));
  const GenerateRequest other = request_of(random_ids(40, 8), 60, 0.9F, 3);
  const Ids expected = alone(model_, other);
  Scheduler scheduler(model_, {.slots = 4});
  std::vector<std::shared_ptr<Ticket>> tickets;
  const auto beside = scheduler.submit(other);
  for (const Ids& prompt : prompts) {
    GenerateRequest request{prompt, {}};
    request.choices = choices;
    tickets.push_back(scheduler.submit(std::move(request)));
  }
  EXPECT_EQ(wait_for(*beside), expected);
  for (size_t p = 0; p < prompts.size(); ++p) {
    wait_for(*tickets[p]);
    const std::vector<double>& scores = tickets[p]->choice_scores();
    ASSERT_EQ(scores.size(), choices.size());
    for (size_t c = 0; c < choices.size(); ++c) {
      Ids ids = prompts[p];
      ids.insert(ids.end(), choices[c].begin(), choices[c].end());
      double sum = 0;
      test::OneSequence session(model_);
      session.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
        const auto next = static_cast<size_t>(position) + 1;
        if (next < prompts[p].size() || next >= ids.size()) return;
        sum += double{logits[static_cast<size_t>(ids[next])]} - log_sum_exp(logits);
      });
      EXPECT_EQ(scores[c], sum) << p << " " << c;
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Schedule,
                         ::testing::Values("qwen3", "gemma3", "qwen35", "lfm2", "phi3-longrope",
                                           "deepseek-v2", "xlstm"),
                         test_name);

class Scheduling : public ::testing::Test {
 protected:
  Model model_{test::fixture_path("tiny/qwen3"), {.threads = 1, .context = 128}};
};

TEST_F(Scheduling, AnswersCanBeCancelled) {
  std::promise<void> cancelled;
  const std::shared_future<void> all_cancelled = cancelled.get_future().share();
  Scheduler scheduler(model_, {.slots = 1});
  GenerateRequest request = request_of(random_ids(5, 1), 120, 0);
  request.logprobs = 0;  // a part for each token: tokens of this model have no text
  request.notify = [all_cancelled] { all_cancelled.wait(); };  // holds the scheduler
  const auto first = scheduler.submit(request);
  const auto second = scheduler.submit(request_of(random_ids(5, 2), 120, 0));
  second->cancel();  // while it waits
  first->cancel();
  cancelled.set_value();
  AnswerPart piece;
  EXPECT_FALSE(second->next(piece));
  EXPECT_EQ(second->result().finish, FinishReason::kCancelled);
  while (first->next(piece)) {
  }
  first->cancel();  // no effect
  EXPECT_LT(first->result().ids.size(), 120U);
  EXPECT_EQ(wait_for(*scheduler.submit(request_of(random_ids(5, 2), 3, 0))).size(), 3U);
}

TEST_F(Scheduling, ItsEndIsTheEndOfWhatRuns) {
  std::shared_ptr<Ticket> running, waiting;
  {
    Scheduler scheduler(model_, {.slots = 1});
    GenerateRequest slow = request_of(random_ids(5, 1), 110, 0);
    slow.logprobs = 0;
    slow.notify = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    running = scheduler.submit(slow);
    waiting = scheduler.submit(request_of(random_ids(5, 2), 110, 0));
  }
  wait_for(*running);
  EXPECT_TRUE(wait_for(*waiting).empty());
  EXPECT_EQ(waiting->result().finish, FinishReason::kCancelled);
  waiting->cancel();
}

ErrorKind refusal(Scheduler& scheduler, GenerateRequest request) {
  try {
    scheduler.submit(std::move(request));
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kBug;
}

TEST_F(Scheduling, RefusesWhatCannotBeDone) {
  Scheduler scheduler(model_, {.slots = 1, .queue = 2});
  EXPECT_EQ(refusal(scheduler, request_of({}, 3, 0)), ErrorKind::kInput);
  EXPECT_EQ(refusal(scheduler, request_of({5, 1 << 20}, 3, 0)), ErrorKind::kInput);
  EXPECT_EQ(refusal(scheduler, request_of({-1}, 3, 0)), ErrorKind::kInput);
  EXPECT_EQ(refusal(scheduler, request_of(random_ids(129, 1), 3, 0)), ErrorKind::kLimit);
  EXPECT_EQ(refusal(scheduler, request_of({1}, 3, -1)), ErrorKind::kInput);
  GenerateRequest request = request_of({1}, 3, 0);
  request.options.stops = {""};
  EXPECT_EQ(refusal(scheduler, request), ErrorKind::kInput);
  request = request_of({1}, 0, 0);
  request.choices = {{2}, {}};
  EXPECT_EQ(refusal(scheduler, request), ErrorKind::kInput);
  request.choices = {random_ids(128, 1)};
  EXPECT_EQ(refusal(scheduler, request), ErrorKind::kLimit);
  request.choices = {{2}};
  request.logprobs = 1;
  EXPECT_EQ(refusal(scheduler, request), ErrorKind::kInput);
  std::vector<std::shared_ptr<Ticket>> tickets;
  EXPECT_THROW(for (int i = 0; i < 50; ++i)
                   tickets.push_back(scheduler.submit(request_of(random_ids(9, 1), 110, 0))),
               QueueFull);
  for (const auto& ticket : tickets) ticket->cancel();
}

// The first request's notification holds the scheduler until the others are submitted. The last
// notification may come after the end of its answer, so the scheduler is destroyed before the order
// is read.
TEST_F(Scheduling, HigherPrioritiesBeginFirst) {
  std::promise<void> submitted;
  const std::shared_future<void> all_there = submitted.get_future().share();
  std::string order;  // written by the scheduler's thread
  {
    Scheduler scheduler(model_, {.slots = 1});
    const auto submit_named = [&](char name, int32_t priority) {
      GenerateRequest request = request_of(random_ids(9, static_cast<uint64_t>(name)), 5, 0);
      request.priority = priority;
      request.notify = [&order, name] {
        if (order.find(name) == std::string::npos) order += name;
      };
      return scheduler.submit(request);
    };
    GenerateRequest first = request_of(random_ids(90, 1), 30, 0);
    first.notify = [all_there] { all_there.wait(); };
    const std::vector tickets{scheduler.submit(first), submit_named('a', -1), submit_named('b', 0),
                              submit_named('c', 2), submit_named('d', 0)};
    submitted.set_value();
    for (const auto& ticket : tickets) wait_for(*ticket);
  }
  EXPECT_EQ(order, "cbda");
}

// Notifications hold the scheduler: until some requests are submitted, and when all slots or all
// memory is in use until the others wait.
TEST_F(Scheduling, ALightUserIsServedBesideManyRequestsOfAnother) {
  constexpr size_t kFirst = 4, kRequests = 30;
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < kRequests; ++i) {
    requests.push_back(request_of(random_ids(20, i), 100, i % 2 == 0 ? 0.0F : 0.9F, i));
    requests.back().user = "heavy";
  }
  std::vector<Ids> expected;
  for (const GenerateRequest& request : requests) expected.push_back(alone(model_, request));
  const SchedulerOptions few_slots{.slots = kFirst, .positions = 4096};
  const SchedulerOptions little_memory{.slots = 8, .kept = 2, .positions = 768};
  for (const SchedulerOptions& options : {few_slots, little_memory}) {
    std::promise<void> enough, taken, submitted;
    // Written by the scheduler's thread.
    bool begun = false, held = false;
    int64_t steps = -1, light_steps = 0, finished = -1;
    Scheduler scheduler(model_, options);
    const auto hold = [&] {
      if (!std::exchange(begun, true)) return enough.get_future().wait();
      const SchedulerCounts counts = scheduler.counts();
      if (held || (counts.running < options.slots && counts.preempted == 0)) return;
      held = true;
      taken.set_value();
      submitted.get_future().wait();
      steps = counts.steps;
    };
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (GenerateRequest request : requests) {
      request.notify = hold;
      request.logprobs = 0;  // so that each token is notified
      tickets.push_back(scheduler.submit(request));
      if (tickets.size() != kFirst) continue;
      enough.set_value();
      taken.get_future().wait();
    }
    GenerateRequest light = request_of(random_ids(9, 99), 5, 0);
    light.user = "light";
    light.notify = [&] {
      light_steps = scheduler.counts().steps;
      if (finished < 0) finished = scheduler.counts().finished();
    };
    const auto ticket = scheduler.submit(light);
    submitted.set_value();
    wait_for(*ticket);
    for (size_t i = 0; i < tickets.size(); ++i) EXPECT_EQ(wait_for(*tickets[i]), expected[i]) << i;
    EXPECT_LE(light_steps - steps, 8) << "a step for each of its tokens";
    EXPECT_EQ(finished, 0) << "of the heavy user's answers";
    EXPECT_GE(scheduler.counts().preempted, 1);
  }
}

TEST_F(Scheduling, CountsTokensAndTimesWhileTheyCome) {
  Scheduler scheduler(model_, {.slots = 2});
  const auto ticket = scheduler.submit(request_of(random_ids(9, 1), 100, 0));
  AnswerPart piece;
  while (ticket->next(piece) && scheduler.counts().made_tokens == 0) {
  }
  EXPECT_GT(ticket->progress().tokens, 0);
  EXPECT_GE(ticket->progress().first_token, 0);
  EXPECT_EQ(ticket->progress().prompt, 9);
  wait_for(*ticket);
  const auto other = scheduler.submit(request_of(random_ids(9, 2), 100, 0));
  other->cancel();
  wait_for(*other);
  SchedulerCounts counts = scheduler.counts();
  while (counts.finished() < 2) counts = scheduler.counts();
  EXPECT_EQ(counts.made_tokens, 100 + other->progress().tokens);
  EXPECT_GE(counts.cut, 1);
  EXPECT_EQ(counts.cut + counts.cancelled, 2) << "it may be over before it is cancelled";
  const Latencies& times = counts.latencies;
  EXPECT_EQ(times.whole.total(), 2);
  EXPECT_GE(times.queue.total(), 1);
  EXPECT_GE(times.first_token.total(), 1);
  EXPECT_LE(times.first_token.total(), times.queue.total());
  EXPECT_GE(times.between_tokens.total(), 90);
  EXPECT_GE(times.whole.sum, times.first_token.sum);
}

TEST(Latencies, DurationsAreCountedByTheirBounds) {
  LatencyHistogram histogram;
  histogram.add(0.001);
  histogram.add(0.0011, 3);
  histogram.add(5000);
  EXPECT_EQ(histogram.counts.front(), 1);
  EXPECT_EQ(histogram.counts[1], 3);
  EXPECT_EQ(histogram.counts.back(), 1);
  EXPECT_EQ(histogram.total(), 5);
  EXPECT_NEAR(histogram.sum, 5000.0043, 1e-9);
}

// Calls of alone() change no answer, and the caller gets their errors.
TEST_F(Scheduling, UsesOfTheModelRunBetweenSteps) {
  Scheduler scheduler(model_, {.slots = 2});
  const auto prompt = random_ids(9, 1);
  const auto expected = wait_for(*scheduler.submit(request_of(prompt, 30, 0.5F, 7)));
  const auto ticket = scheduler.submit(request_of(prompt, 30, 0.5F, 7));
  int uses = 0;
  for (int i = 0; i < 5; ++i)
    scheduler.alone([&](Model& model) {
      EXPECT_EQ(&model, &model_);
      test::OneSequence(model).feed(prompt);
      ++uses;
    });
  EXPECT_THROW(scheduler.alone([](Model&) { throw Error(ErrorKind::kInput, "no"); }), Error);
  EXPECT_EQ(wait_for(*ticket), expected);
  EXPECT_EQ(uses, 5);
}

TEST_F(Scheduling, ManyThreadsSubmitAndCancel) {
  Scheduler scheduler(model_, {.slots = 4});
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 20; ++i) {
        const auto ticket = scheduler.submit(request_of(random_ids(1 + t * 7, t + i), 20, 0.5F, i));
        if ((t + i) % 3 == 0) ticket->cancel();
        EXPECT_LE(wait_for(*ticket).size(), 20U);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scheduler.counts().requests, 160);
}

// The embedding of this model is read from the mapped file.
TEST(ChangedFiles, NoAnswerIsMadeOfAModelThatShrinksBetweenTokens) {
  const test::TinyModel file;
  Model model(file.path(), {.threads = 2});
  Scheduler scheduler(model, {.slots = 2});
  const GenerateRequest request = request_of({256, 104, 105}, 40, 0);
  const auto whole = scheduler.submit(request);
  EXPECT_EQ(wait_for(*whole).size(), 40U);
  EXPECT_TRUE(model.is_unchanged());
  const auto ticket = scheduler.submit(request);
  AnswerPart part;
  ASSERT_TRUE(ticket->next(part));
  std::filesystem::resize_file(file.path(), 4096);
  EXPECT_THROW(wait_for(*scheduler.submit(request)), FileChanged);
  EXPECT_FALSE(model.is_unchanged());
}

TEST(ChangedFiles, ADraftModelThatShrinksEndsDraftsNotAnswers) {
  const test::TinyModel file, draft;
  Model model(file.path(), {.threads = 1});
  const GenerateRequest request = request_of({256, 104, 105}, 40, 0);
  const Ids expected = alone(model, request);
  SchedulerOptions options;
  options.always_draft = true;
  options.draft_model = std::make_shared<Model>(draft.path(), LoadOptions{.threads = 1});
  Scheduler scheduler(model, options);
  EXPECT_EQ(wait_for(*scheduler.submit(request)), expected);
  std::filesystem::resize_file(draft.path(), 4096);
  const int64_t drafted = scheduler.counts().drafted_tokens;
  EXPECT_GT(drafted, 0);
  EXPECT_EQ(wait_for(*scheduler.submit(request)), expected);
  EXPECT_EQ(wait_for(*scheduler.submit(request)), expected);
}

TEST(ChangedFiles, LoadingAFileThatShrinksIsRefusedAtEveryMoment) {
  for (size_t moment = 0; moment < 12; ++moment) {
    const test::TinyModel file;
    size_t calls = 0;
    LoadOptions options{.threads = 2};
    options.progress = [&](size_t, size_t) {
      if (calls++ == moment) std::filesystem::resize_file(file.path(), 5000);
    };
    EXPECT_THROW(Model(file.path(), options), FileChanged) << moment;
    EXPECT_GT(calls, moment);
  }
}

}  // namespace
}  // namespace veery

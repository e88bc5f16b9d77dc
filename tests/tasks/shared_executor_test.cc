// Schedulers and an embedder on one executor, under load from several threads: each gives the
// results of a program of its own, and models come and go meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/scheduler.h"
#include "support/models.h"
#include "tasks/embed.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

LoadOptions options_on(std::shared_ptr<Executor> executor) {
  return {.executor = std::move(executor), .threads = 2, .context = 64, .chunk = 16};
}

// Every other request samples, which needs the logits of the last run.
GenerateRequest request_of(int number) {
  GenerateRequest request;
  for (int i = 0; i < 5 + 3 * (number % 4); ++i)
    request.prompt.push_back((11 * number + 5 * i) % 50);
  request.options.max_tokens = 6;
  request.options.ignore_eos = true;
  request.options.sampling.temperature = number % 2 == 0 ? 0.0F : 0.9F;
  request.options.sampling.seed = static_cast<uint64_t>(number);
  return request;
}

Ids wait_for(Ticket& ticket) {
  AnswerPart piece;
  while (ticket.next(piece)) {
  }
  return ticket.result().ids;
}

std::vector<Ids> answers(Scheduler& scheduler, int count) {
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (int i = 0; i < count; ++i) tickets.push_back(scheduler.submit(request_of(i)));
  std::vector<Ids> all;
  for (const auto& ticket : tickets) all.push_back(wait_for(*ticket));
  return all;
}

std::vector<Ids> answers_alone(const std::string& path, int count) {
  Model model(path, options_on(nullptr));
  Scheduler scheduler(model, {.slots = 3, .kept = 2});
  return answers(scheduler, count);
}

std::vector<std::vector<float>> values_of(Embedder& embedder, int turn) {
  const std::vector<std::string> texts = {
      "rain", turn % 2 == 0 ? "The thrush sings at night." : "Wind from the west, and rain."};
  std::vector<std::vector<float>> all;
  for (const TextEmbedding& one : embedder.embed(texts)) all.push_back(one.values);
  return all;
}

TEST(SharedExecutor, SchedulersAndAnEmbedderGiveTheirOwnResultsUnderLoad) {
  constexpr int kRequests = 8, kTurns = 2;
  const std::string first = test::fixture_path("tiny/llama-linear"),
                    second = test::fixture_path("tiny/gemma3"),
                    texts = test::fixture_path("encoders/bert-mean");
  const std::vector<Ids> of_first = answers_alone(first, kRequests),
                         of_second = answers_alone(second, kRequests);
  Embedder alone(texts, {.threads = 2});
  const auto even = values_of(alone, 0), odd = values_of(alone, 1);

  const auto executor = std::make_shared<Executor>(2);
  Model one(first, options_on(executor)), two(second, options_on(executor));
  Scheduler scheduler(one, {.slots = 3, .kept = 2}), other(two, {.slots = 3, .kept = 2});
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) EXPECT_EQ(answers(scheduler, kRequests), of_first);
    });
    clients.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) EXPECT_EQ(answers(other, kRequests), of_second);
    });
  }
  clients.emplace_back([&] {
    for (int turn = 0; turn < 6; ++turn) {
      Embedder embedder(texts, {.executor = executor});  // comes and goes while the others run
      if (turn % 2 == 0) embedder.reserve();
      EXPECT_EQ(values_of(embedder, turn), turn % 2 == 0 ? even : odd);
    }
  });
  for (std::thread& client : clients) client.join();
}

TEST(SharedExecutor, AFailedRequestAndADestroyedSchedulerLeaveTheOthersRunning) {
  const std::string path = test::fixture_path("tiny/llama-linear");
  const std::vector<Ids> expected = answers_alone(path, 6);
  const auto executor = std::make_shared<Executor>(2);
  Model model(path, options_on(executor));
  Scheduler scheduler(model, {.slots = 2, .kept = 2});
  std::atomic<bool> over{false};
  std::thread others([&] {
    while (!over) {
      Model second(test::fixture_path("tiny/gemma3"), options_on(executor));
      Scheduler own(second, {.slots = 2, .kept = 1});
      EXPECT_THROW(own.alone([](Model&) { throw Error(ErrorKind::kInput, "in vain"); }), Error);
      const auto ticket = own.submit(request_of(2));  // cancelled by the destructor
      answers(own, 2);
    }
  });
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(answers(scheduler, 6), expected);
  over = true;
  others.join();
  EXPECT_EQ(answers(scheduler, 6), expected);
}

}  // namespace
}  // namespace veery

// The order of waiting jobs, and preemption in favour of users without a slot.
#include "schedule/job_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/random.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

class Queue : public ::testing::Test {
 protected:
  std::unique_ptr<Job> job(const std::string& user, int32_t number, int32_t priority = 0,
                           double weight = 1) {
    GenerateRequest request{.prompt = {number}};
    request.user = user;
    request.priority = priority;
    request.weight = weight;
    return std::make_unique<Job>(model_, std::make_shared<Ticket>(std::move(request)));
  }
  static bool any(const Job&) { return true; }
  // Takes up to `count` jobs, each of which costs `tokens`: "a1 b7 ..."; numbers are prompts.
  std::string order(int count, double tokens = 10) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const std::unique_ptr<Job> next = queue_.take(any);
      if (!next) break;
      queue_.charge(*next, tokens);
      text += (text.empty() ? "" : " ") + next->request().user +
              std::to_string(next->request().prompt[0]);
    }
    return text;
  }

  test::TinyModel file_;
  Model model_{file_.path(), {.threads = 1}};
  JobQueue queue_;
};

TEST_F(Queue, JobsOfOneUserKeepTheirOrder) {
  for (int i = 0; i < 4; ++i) queue_.push(job("a", i));
  EXPECT_EQ(queue_.size(), 4);
  EXPECT_EQ(order(9), "a0 a1 a2 a3");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(Queue, ALightUserIsNextAfterManyJobsOfAnother) {
  for (int i = 0; i < 30; ++i) queue_.push(job("heavy", i));
  EXPECT_EQ(order(4), "heavy0 heavy1 heavy2 heavy3");
  queue_.push(job("light", 0));
  queue_.push(job("light", 1));
  EXPECT_EQ(order(4), "heavy4 light0 heavy5 light1");
}

TEST_F(Queue, SharesFollowWeightsAndTokens) {
  for (int i = 0; i < 20; ++i) queue_.push(job("a", i, 0, 1)), queue_.push(job("b", i, 0, 3));
  int of_b = 0;
  for (int i = 0; i < 16; ++i) {
    const auto next = queue_.take(any);
    queue_.charge(*next, 10);
    of_b += next->request().user == "b" ? 1 : 0;
  }
  EXPECT_EQ(of_b, 12);
  // Long answers count by their tokens.
  for (int i = 0; i < 9; ++i) queue_.push(job("c", i)), queue_.push(job("d", i));
  queue_.erase_if([](auto& one) { return one->request().user < "c"; });
  int of_c = 0;
  for (int i = 0; i < 10; ++i) {
    const auto next = queue_.take(any);
    const bool c = next->request().user == "c";
    queue_.charge(*next, c ? 40 : 10);
    of_c += c ? 1 : 0;
  }
  EXPECT_EQ(of_c, 2);
}

TEST_F(Queue, IdleTimeEarnsNoCredit) {
  for (int i = 0; i < 50; ++i) queue_.push(job("a", i));
  order(40);
  for (int i = 0; i < 9; ++i) queue_.push(job("late", i));
  EXPECT_EQ(order(6), "a40 late0 a41 late1 a42 late2");
}

TEST_F(Queue, PrioritiesGoFirstAndJobsThatWereBegunBeforeTheOthersOfTheirUser) {
  queue_.push(job("a", 0));
  queue_.push(job("a", 1, 2));
  queue_.push(job("b", 2, 1));
  queue_.push_front(job("a", 3));
  EXPECT_EQ(order(9), "a1 b2 a3 a0");
}

TEST_F(Queue, JobsThatMayNotBeginYetAreLeft) {
  for (int i = 0; i < 3; ++i) queue_.push(job("a", i)), queue_.push(job("b", i));
  const auto odd = queue_.take([](const Job& one) { return one.request().prompt[0] == 1; });
  EXPECT_EQ(odd->request().user, "a");
  EXPECT_EQ(queue_.take([](const Job&) { return false; }), nullptr);
  EXPECT_EQ(queue_.size(), 5);
}

// Compared with a search through all waiting jobs.
TEST_F(Queue, ChargesKeepEveryPriorityInOrder) {
  Random random(3);
  std::map<std::string, double> served;
  std::vector<std::pair<std::string, int32_t>> waiting;
  for (int i = 0; i < 60; ++i) {
    const std::string user(1, static_cast<char>('a' + random.next() % 5));
    const auto priority = static_cast<int32_t>(random.next() % 3);
    served[user];
    waiting.emplace_back(user, priority);
    queue_.push(job(user, i, priority));
  }
  while (!waiting.empty()) {
    const auto expected = std::ranges::min_element(waiting, {}, [&](const auto& one) {
      return std::tuple(-one.second, served[one.first], one.first);
    });
    const std::unique_ptr<Job> next = queue_.take(any);
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(next->request().user, expected->first);
    EXPECT_EQ(next->request().priority, expected->second);
    const auto tokens = static_cast<double>(random.next() % 20);
    queue_.charge(*next, tokens);
    served[expected->first] += tokens;
    waiting.erase(expected);
  }
  EXPECT_TRUE(queue_.empty());
}

TEST_F(Queue, ADroppedJobEndsItsAnswerWithAnError) {
  const auto ticket = std::make_shared<Ticket>(GenerateRequest{.prompt = {1}});
  std::make_unique<Job>(model_, ticket).reset();
  AnswerPart piece;
  EXPECT_THROW(ticket->next_within(piece, 0), Error);
}

TEST_F(Queue, UsersAreForgotten) {
  for (int i = 0; i < 20000; ++i) {
    queue_.push(job("user" + std::to_string(i), i));
    queue_.charge(*queue_.take(any), 5);
  }
  EXPECT_TRUE(queue_.empty());
  EXPECT_LE(queue_.users(), 4100U);
}

TEST_F(Queue, AUserWithoutAPlaceGetsThatOfTheOneWithTheMost) {
  std::vector<std::unique_ptr<Job>> running;
  for (const char* user : {"a", "b", "b", "c", "b", "a"}) running.push_back(job(user, 0));
  queue_.push(job("b", 1));
  EXPECT_EQ(choose_preemption(queue_, running, any).job, nullptr) << "b has places";
  queue_.push(job("low", 2, -1));
  EXPECT_EQ(choose_preemption(queue_, running, any).job, nullptr)
      << "others have a higher priority";
  queue_.push(job("d", 3));
  EXPECT_EQ(choose_preemption(queue_, running, [](const Job&) { return false; }).job, nullptr);
  const Preemption preemption = choose_preemption(queue_, running, any);
  ASSERT_NE(preemption.job, nullptr);
  EXPECT_EQ(preemption.job->request().user, "d");
  EXPECT_EQ(preemption.victim, 4U);
  EXPECT_EQ(last_of_busiest(running), 4U);
  running.clear();
  for (const char* user : {"a", "b", "c"}) running.push_back(job(user, 0));
  queue_.push(job("d", 4));
  const auto uncalled = [](const Job&) { return ADD_FAILURE(), false; };
  EXPECT_EQ(choose_preemption(queue_, running, uncalled).job, nullptr) << "all have one place";
  EXPECT_EQ(last_of_busiest(running), 2U) << "never the first, so that one goes on";
}

}  // namespace
}  // namespace veery

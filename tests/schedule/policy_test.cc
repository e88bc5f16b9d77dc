// The parts of a scheduler without its thread: which runs are composed, and what their results do
// to answers.
#include "schedule/policy.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/batch.h"
#include "schedule/commit.h"
#include "schedule/speculation.h"
#include "support/families.h"

namespace veery {
namespace {

using Sizes = std::vector<size_t>;

class Policies : public ::testing::Test {
 protected:
  static constexpr int32_t kSlots = 2;

  std::shared_ptr<Ticket> enqueue(size_t prompt, int64_t tokens) {
    GenerateRequest request{test::random_ids(prompt, prompt), {}};
    request.options.max_tokens = tokens;
    request.options.ignore_eos = true;
    request.options.sampling.temperature = 0;
    const auto ticket = std::make_shared<Ticket>(std::move(request));
    policy_.enqueue(std::make_unique<Job>(model_, ticket));
    return ticket;
  }
  /// Composes the next run and returns the sizes of its parts; none if nothing is to be run.
  Sizes compose() {
    Sizes sizes;
    if (policy_.compose(batch_))
      for (const RunPart& part : batch_.parts) sizes.push_back(part.ids.size());
    return sizes;
  }
  /// Runs the batch and applies its results.
  void run() {
    session_.run(batch_.parts);
    commit_.apply(batch_);
    policy_.settle(batch_);
  }

  Model model_{test::fixture_path("tiny/qwen3"), {.threads = 1, .context = 128, .chunk = 64}};
  SchedulerOptions options_{.draft_tokens = 0};
  SchedulerCounts counts_;
  DraftModels drafts_;
  CachePlan plan_;
  Session session_{model_, {.sequences = kSlots + 1}};
  Sequences sequences_{session_, true};
  Speculation speculation_{session_, drafts_, plan_, options_};
  Commit commit_{session_, sequences_, speculation_, counts_};
  Policy policy_{session_, sequences_, commit_, counts_, {.slots = kSlots, .longest_step = 100}};
  Batch batch_;
};

TEST_F(Policies, RunsHaveAllDecodingAnswersAndPrefillChunks) {
  enqueue(70, 9);
  enqueue(90, 9);
  enqueue(5, 9);
  policy_.admit();
  EXPECT_EQ(policy_.running().size(), 2U);
  EXPECT_EQ(policy_.waiting(), 1);
  EXPECT_EQ(compose(), Sizes({64}));
  EXPECT_TRUE(batch_.prefills);
  EXPECT_EQ(batch_.rows(), 64);
  run();
  EXPECT_EQ(compose(), Sizes({6, 58}));
  run();
  EXPECT_EQ(compose(), Sizes({1, 32})) << "the first one decodes";
  run();
  EXPECT_EQ(compose(), Sizes({1, 1}));
  EXPECT_FALSE(batch_.prefills);
}

TEST_F(Policies, AnswersThatAreOverGiveTheirSlotToOthers) {
  const auto first = enqueue(20, 1);
  const auto second = enqueue(30, 3);
  const auto third = enqueue(8, 1);
  policy_.admit();
  EXPECT_EQ(compose(), Sizes({20, 30}));
  run();
  EXPECT_EQ(counts_.cut, 1);
  EXPECT_EQ(counts_.made_tokens, 2);
  EXPECT_EQ(first->result().ids.size(), 1U);
  EXPECT_EQ(sequences_.kept(), 1);
  EXPECT_EQ(policy_.running().size(), 1U);
  policy_.admit();
  EXPECT_EQ(policy_.waiting(), 0);
  EXPECT_EQ(compose(), Sizes({1, 8}));
  run();
  while (!compose().empty()) run();
  EXPECT_TRUE(policy_.idle());
  EXPECT_EQ(counts_.cut, 3);
  EXPECT_EQ(counts_.made_tokens, 5);
  EXPECT_EQ(second->result().ids.size(), 3U);
  EXPECT_EQ(third->result().ids.size(), 1U);
}

TEST_F(Policies, CancelledJobsEnd) {
  const auto running = enqueue(20, 9);
  const auto other = enqueue(21, 9);
  const auto waiting = enqueue(22, 9);
  policy_.admit();
  waiting->cancel();
  running->cancel();
  policy_.drop_cancelled();
  EXPECT_EQ(counts_.cancelled, 2);
  EXPECT_EQ(policy_.running().size(), 1U);
  EXPECT_EQ(policy_.waiting(), 0);
  policy_.fail_running(std::make_exception_ptr(Error(ErrorKind::kIo, "gone")));
  EXPECT_EQ(counts_.failed, 1);
  EXPECT_TRUE(policy_.idle());
  AnswerPart part;
  EXPECT_THROW(other->next(part), Error);
}

}  // namespace
}  // namespace veery

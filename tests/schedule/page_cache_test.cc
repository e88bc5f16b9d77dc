// The prefix cache in memory: what it finds, what it evicts, and that sequences that continue from
// it have the bits of sequences that were computed as a whole.
#include "schedule/caches/page_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "schedule/caches/sequences.h"
#include "schedule/generate.h"
#include "support/families.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;
using test::random_ids;

Ids joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

int32_t common(const Ids& a, const Ids& b) {
  return static_cast<int32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

uint64_t no_hash(uint64_t, std::span<const int32_t>) { return 7; }

/// A session, and sequences over it as in a scheduler.
class Cache {
 public:
  Cache(Model& model, const SessionOptions& options,
        PageCache::HashTokens hash = PageCache::hash_tokens)
      : session_(model, options),
        sequences_(std::make_unique<Sequences>(session_, true, nullptr, hash)) {}

  Session& session() { return session_; }
  Sequences& sequences() { return *sequences_; }
  int32_t match(const Ids& ids, int64_t adapter = 0) {
    return sequences_->match(ids, kPositions, adapter);
  }
  /// Opens a sequence and runs the tokens that are not cached. Returns the sequence.
  int32_t begin(const Ids& ids, int64_t adapter = 0) {
    const int32_t sequence = sequences_->take(ids, kPositions, adapter);
    reused_ = session_.position(sequence);
    run(sequence, ids);
    return sequence;
  }
  /// The same, and closes the sequence. Returns the logits after the last token.
  Logits ask(const Ids& ids, int64_t adapter = 0) {
    const int32_t sequence = begin(ids, adapter);
    Logits logits(session_.logits(0).begin(), session_.logits(0).end());
    sequences_->keep(sequence, false);
    return logits;
  }
  /// Runs the tokens of `ids` that a sequence does not have yet.
  void run(int32_t sequence, const Ids& ids) {
    while (session_.position(sequence) < std::ssize(ids)) {
      const auto at = static_cast<size_t>(session_.position(sequence));
      const RunPart part{sequence,
                         std::span(ids).subspan(at, std::min<size_t>(64, ids.size() - at)), 1};
      const std::span parts(&part, 1);
      for (auto lack = session_.lack(parts); lack != Pages::Lack::kNothing;
           lack = session_.lack(parts))
        if (!sequences_->make_room(lack)) FAIL() << "no memory is left";
      session_.run(parts);
      sequences_->append(sequence, part.ids);
    }
  }
  int32_t reused() const { return reused_; }  ///< tokens of the last begin()
  void forget_all() { sequences_.reset(); }

  static constexpr int32_t kPositions = test::LongModel::kContext;

 private:
  Session session_;
  std::unique_ptr<Sequences> sequences_;
  int32_t reused_ = 0;
};

class PageCaches : public ::testing::TestWithParam<std::string> {
 protected:
  Logits alone(const Ids& ids) { return Cache(model_, {}).ask(ids); }

  test::LongModel files_{"tiny/" + GetParam()};
  Model model_{files_.path(), {.threads = 1, .context = test::LongModel::kContext, .chunk = 64}};
};

// Prompts that branch at random positions, as conversations do.
Ids prompt_of_tree(Random& random, const std::vector<Ids>& earlier) {
  const Ids fresh = random_ids(1 + random.next() % 400, random.next());
  if (earlier.empty() || random.next() % 5 == 0) return fresh;
  const Ids& from = earlier[random.next() % earlier.size()];
  const size_t size = random.next() % 3 == 0 ? from.size() : 1 + random.next() % from.size();
  Ids ids = joined(Ids(from.begin(), from.begin() + static_cast<ptrdiff_t>(size)), fresh);
  ids.resize(std::min<size_t>(ids.size(), 900));
  return ids;
}

TEST_P(PageCaches, SequencesGoOnWithTheSameBits) {
  Random random(1);
  Cache cache(model_, {.sequences = 4, .snapshots = 12, .kept = 4});
  std::vector<Ids> prompts;
  int32_t reused = 0;
  for (int i = 0; i < 24; ++i) {
    prompts.push_back(prompt_of_tree(random, prompts));
    const int32_t expected = cache.match(prompts.back());
    EXPECT_EQ(cache.ask(prompts.back()), alone(prompts.back())) << i;
    EXPECT_EQ(cache.reused(), expected);
    reused += expected;
  }
  EXPECT_GT(reused, 1000);
  cache.forget_all();
  EXPECT_EQ(cache.session().used_pages(), 0);
  EXPECT_TRUE(cache.session().pages().fit_states());
}

// Little memory: pages and states are evicted all the time.
TEST_P(PageCaches, EvictionChangesNoBits) {
  Random random(2);
  Cache cache(model_, {.sequences = 2, .positions = 1024 + 512, .snapshots = 2});
  std::vector<Ids> prompts;
  for (int i = 0; i < 24; ++i) {
    prompts.push_back(prompt_of_tree(random, prompts));
    EXPECT_EQ(cache.ask(prompts.back()), alone(prompts.back())) << i;
  }
  EXPECT_LE(cache.session().used_pages(), 6 * 2);
  cache.forget_all();
  EXPECT_EQ(cache.session().used_pages(), 0);
  EXPECT_TRUE(cache.session().pages().fit_states());
}

// A prompt finds what open sequences have computed.
TEST_P(PageCaches, OpenSequencesAreShared) {
  Cache cache(model_, {.sequences = 6, .snapshots = 12});
  const Ids prompt = random_ids(400, 3);
  const int32_t first = cache.begin(prompt);
  cache.session().save(first);
  for (uint64_t i = 0; i < 3; ++i) {
    const Ids ids = joined(prompt, random_ids(150, 10 + i));
    const Logits expected = alone(ids);
    const int32_t sequence = cache.begin(ids);
    EXPECT_GE(cache.reused(), 400);
    EXPECT_EQ(Logits(cache.session().logits(0).begin(), cache.session().logits(0).end()), expected);
    if (i == 1) cache.sequences().drop(sequence);
  }
  const Ids other = joined(prompt, random_ids(9, 20));
  EXPECT_EQ(cache.ask(other), alone(other));
}

TEST_P(PageCaches, AdaptersShareNothing) {
  Cache cache(model_, {.sequences = 4, .snapshots = 12});
  const Ids ids = random_ids(600, 4), longer = joined(ids, {1, 2, 3});
  cache.ask(ids, 1);
  EXPECT_EQ(cache.match(longer, 1), 600);
  EXPECT_EQ(cache.match(longer, 0), 0);
  EXPECT_EQ(cache.match(longer, 2), 0);
  const int32_t open = cache.begin(ids, 2);
  EXPECT_EQ(cache.reused(), 0);
  EXPECT_EQ(cache.match(longer, 0), 0);
  cache.sequences().drop(open);
}

TEST_P(PageCaches, ALongConversationIsFoundAfterManyOthers) {
  Cache cache(model_, {.sequences = 24, .snapshots = 12});
  const Ids ids = random_ids(300, 5), longer = joined(ids, {1, 2, 3});
  cache.ask(ids);
  for (uint64_t i = 0; i < 20; ++i) cache.ask(random_ids(40, 100 + i));
  EXPECT_EQ(cache.match(longer), 300);
  EXPECT_EQ(cache.ask(longer), alone(longer));
}

// As if a request was cancelled while a choice is scored: its tokens are not those of the prompt.
TEST_P(PageCaches, TokensThatAreNotPartOfThePrefixAreNotCached) {
  Cache cache(model_, {.sequences = 3, .snapshots = 12});
  const Ids ids = random_ids(300, 23), choice = random_ids(64, 24);
  const int32_t sequence = cache.begin(ids);
  const RunPart part{sequence, choice, 1};
  cache.session().run({&part, 1});
  cache.sequences().keep(sequence, false);
  const Ids longer = joined(ids, choice);
  EXPECT_LE(cache.match(longer), 300);
  EXPECT_EQ(cache.ask(longer), alone(longer));
}

// A session file has the states of the prefix that it saves.
TEST_P(PageCaches, SavedPrefixesAreFoundAfterLoading) {
  const SessionOptions options{.sequences = 3, .snapshots = 12, .snapshot_every = 100};
  const test::TemporaryFolder folder;
  const Ids ids = random_ids(600, 21), part(ids.begin(), ids.begin() + 590);
  const Ids longer = joined(ids, {1, 2, 3});
  Cache cache(model_, options), fresh(model_, options);
  cache.ask(ids);
  const int32_t used = cache.session().used_pages();
  EXPECT_EQ(cache.sequences().save(ids, "a note", folder.file("session")), 600);
  EXPECT_EQ(cache.session().used_pages(), used);
  EXPECT_EQ(fresh.sequences().load(folder.file("session")).note, "a note");
  EXPECT_EQ(fresh.match(longer), 600);
  EXPECT_EQ(fresh.match(part), cache.match(part));
  EXPECT_GE(fresh.match(part), 480);
  EXPECT_EQ(fresh.ask(longer), alone(longer));
  EXPECT_EQ(fresh.ask(part), alone(part));
}

INSTANTIATE_TEST_SUITE_P(All, PageCaches,
                         ::testing::Values("qwen3", "gemma3", "qwen35", "lfm2", "phi3-longrope",
                                           "deepseek-v2", "xlstm"),
                         test::test_name);

class GrowingPages : public ::testing::Test {
 protected:
  test::LongModel files_{"tiny/qwen3"};
  Model model_{files_.path(), {.threads = 1, .context = test::LongModel::kContext, .chunk = 64}};
};

// Growing caches can be cut anywhere, so the match is the longest common prefix with any prompt.
TEST_F(GrowingPages, TheLongestCommonPrefixIsFound) {
  for (const PageCache::HashTokens hash : {&PageCache::hash_tokens, &no_hash}) {
    Random random(6);
    Cache cache(model_, {.sequences = 100}, hash);
    std::vector<Ids> prompts;
    for (int i = 0; i < 80; ++i) {
      const Ids ids = prompt_of_tree(random, prompts);
      int32_t longest = 0;
      for (const Ids& other : prompts) longest = std::max(longest, common(ids, other));
      EXPECT_EQ(cache.match(ids), std::min(longest, static_cast<int32_t>(ids.size()) - 1)) << i;
      cache.ask(ids);
      prompts.push_back(ids);
    }
  }
}

TEST_F(GrowingPages, HashCollisionsAreNoticed) {
  Cache cache(model_, {.sequences = 4}, no_hash);
  const Ids a = random_ids(600, 7), b = random_ids(600, 8);
  cache.ask(a);
  EXPECT_LT(cache.match(b), 10);
  EXPECT_EQ(cache.ask(b), Cache(model_, {}).ask(b));
  EXPECT_EQ(cache.match(joined(a, {1})), 600);
}

TEST_F(GrowingPages, TheLeastRecentlyUsedAndTheLaterPagesAreEvictedFirst) {
  Cache cache(model_, {.sequences = 4});
  const Ids a = joined({1}, random_ids(699, 9)), b = joined({2}, random_ids(699, 10)),
            c = joined({3}, random_ids(519, 11));
  const auto matches = [&] {
    return std::vector{cache.match(joined(a, {1})), cache.match(joined(b, {1})),
                       cache.match(joined(c, {1}))};
  };
  const auto evict = [&] { EXPECT_TRUE(cache.sequences().make_room(Pages::Lack::kPages)); };
  cache.ask(a);
  cache.ask(b);
  cache.ask(c);
  EXPECT_EQ(matches(), (std::vector{700, 700, 520}));
  EXPECT_EQ(cache.sequences().kept(), 9);
  EXPECT_EQ(cache.session().used_pages(), 9);
  cache.ask(Ids(a.begin(), a.begin() + 400));  // uses two of its pages again, after the others
  evict();                                     // the end of a
  EXPECT_EQ(matches(), (std::vector{512, 700, 520}));
  for (int i = 0; i < 3; ++i) evict();
  EXPECT_EQ(matches(), (std::vector{512, 0, 520}));
  evict();
  EXPECT_EQ(matches(), (std::vector{512, 0, 512}));
  const int32_t open = cache.begin(a);
  while (cache.sequences().make_room(Pages::Lack::kPages)) {
  }
  EXPECT_EQ(matches(), (std::vector{700, 0, 0})) << "an open sequence has these pages";
  cache.sequences().drop(open);
  EXPECT_EQ(matches(), (std::vector{512, 0, 0})) << "full pages stay";
  evict();
  evict();
  EXPECT_FALSE(cache.sequences().make_room(Pages::Lack::kPages));
  EXPECT_EQ(cache.session().used_pages(), 0);
}

// A page that was computed twice is held once.
TEST_F(GrowingPages, EqualPagesAreHeldOnce) {
  Cache cache(model_, {.sequences = 2});
  const Ids ids = random_ids(600, 12);
  for (int i = 0; i < 3; ++i) {
    const int32_t sequence = cache.sequences().take_empty(Cache::kPositions);
    cache.run(sequence, ids);
    cache.sequences().keep(sequence, false);
  }
  EXPECT_EQ(cache.session().used_pages(), 3);
  EXPECT_EQ(cache.sequences().kept(), 3);
  cache.ask(joined(ids, random_ids(100, 13)));  // continues the last page
  EXPECT_EQ(cache.sequences().kept(), 3);
}

// Memory for eight states: the ends of prompts stay longer than snapshots within a prompt.
TEST(RecurrentStates, SnapshotsAreEvictedBeforeEnds) {
  const test::LongModel files("tiny/qwen35");
  Model model(files.path(), {.threads = 1, .context = test::LongModel::kContext, .chunk = 64});
  Cache cache(model, {.sequences = 4, .snapshots = 4, .snapshot_every = 64});
  const Ids conversation = random_ids(400, 22);
  const Ids part(conversation.begin(), conversation.begin() + 390);
  const auto other = [](uint64_t i) { return random_ids(20, 30 + i); };
  for (uint64_t i = 0; i < 3; ++i) cache.ask(other(i));
  cache.ask(conversation);
  EXPECT_GE(cache.match(part), 64);
  for (uint64_t i = 3; i < 7; ++i) cache.ask(other(i));
  EXPECT_EQ(cache.match(part), 0);
  EXPECT_EQ(cache.match(joined(conversation, {1})), 400);
  for (uint64_t i = 0; i < 7; ++i) EXPECT_EQ(cache.match(joined(other(i), {1})), 20) << i;
  cache.ask(other(7));  // takes the place of the end that was used least recently
  EXPECT_EQ(cache.match(joined(other(0), {1})), 0);
  EXPECT_EQ(cache.match(joined(other(1), {1})), 20);
}

// Answers of a scheduler with and without a cache, with much and with little memory.
TEST_P(PageCaches, AnswersDoNotDependOnTheCache) {
  const auto answers = [&](const SchedulerOptions& options) {
    Random random(14);
    Scheduler scheduler(model_, options);
    std::vector<Ids> prompts;
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (uint64_t i = 0; i < 16; ++i) {
      prompts.push_back(prompt_of_tree(random, prompts));
      GenerateRequest request{prompts.back(), {}};
      request.options.max_tokens = 12;
      request.options.ignore_eos = true;
      request.options.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
      request.options.sampling.seed = i;
      tickets.push_back(scheduler.submit(std::move(request)));
    }
    std::vector<Ids> all;
    for (const auto& ticket : tickets) {
      for (AnswerPart part; ticket->next(part);) {
      }
      all.push_back(ticket->result().ids);
    }
    return all;
  };
  const std::vector<Ids> expected = answers({.slots = 1, .kept = 0});
  EXPECT_EQ(answers({.slots = 4}), expected);
  EXPECT_EQ(answers({.slots = 6, .kept = 2, .positions = 2048}), expected);
}

}  // namespace
}  // namespace veery

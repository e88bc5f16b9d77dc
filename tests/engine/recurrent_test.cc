// Models with recurrent layers: the recurrent state follows its sequence through forks, snapshots
// and rewinding, and the bits do not depend on the split into runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "engine/session.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

constexpr const char* kFolders[] = {"qwen35", "qwen3next", "mamba2",         "lfm2",
                                    "xlstm",  "xlstm-lm",  "kimi-linear",    "bamba",
                                    "jamba",  "rwkv7",     "nemotron-h-moe", "falcon-h1"};

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;

Ids random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

Logits copy(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

Logits after(Model& model, std::span<const int32_t> ids, int32_t chunk = 0) {
  test::OneSequence session(model);
  if (chunk > 0) session.set_chunk(chunk);
  session.feed(ids);
  return copy(session.logits());
}

class Recurrent : public ::testing::TestWithParam<const char*> {};

TEST_P(Recurrent, ChunksAndThreadsDoNotMatter) {
  const Ids ids = random_ids(90, 1);
  for (const bool exact : {false, true}) {
    Model one(folder_of(GetParam()), {.threads = 1, .exact = exact});
    Model two(folder_of(GetParam()), {.threads = 2, .exact = exact});
    const Logits expected = after(one, ids);
    for (const int32_t chunk : {7, 64}) {
      EXPECT_EQ(after(one, ids, chunk), expected) << chunk;
      EXPECT_EQ(after(two, ids, chunk), expected) << chunk;
    }
  }
}

// The recurrent state does not grow, and gates keep it finite, far beyond the 128 positions of the
// configuration.
TEST(EndlessAnswer, StaysFiniteInMemoryOfOneSize) {
#ifdef NDEBUG
  constexpr int32_t kTokens = 100'000;
#else
  constexpr int32_t kTokens = 3'000;
#endif
  for (const char* name : {"xlstm", "xlstm-lm"}) {
    Model usual(folder_of(name), {.threads = 1, .context = 128});
    Model model(folder_of(name), {.threads = 1, .context = kTokens + 1});
    test::OneSequence session(model);
    EXPECT_EQ(session.cache_bytes(), test::OneSequence(usual).cache_bytes());
    Random random(4);
    int32_t id = 1;
    for (int32_t i = 0; i < kTokens; ++i) {
      session.feed(std::span(&id, 1));
      const auto logits = session.logits();
      ASSERT_TRUE(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) << i;
      // Greedy for a while, then a random token, to leave cycles.
      id = i % 64 < 48 ? static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())
                       : static_cast<int32_t>(random.next() % logits.size());
    }
    EXPECT_EQ(session.position(), kTokens);
  }
}

TEST(EndlessAnswer, IsForModelsWithoutAttention) {
  Model model(folder_of("mamba2"), {.threads = 1, .context = 5000});
  EXPECT_EQ(test::OneSequence(model).context(), 5000);
  for (const char* name : {"qwen35", "falcon-h1"})
    EXPECT_THROW(Model(folder_of(name), {.threads = 1, .context = 500'000}), Error) << name;
}

TEST_P(Recurrent, OtherSequencesOfARunDoNotMatter) {
  Model model(folder_of(GetParam()), {.threads = 2});
  Session runner(model, {.sequences = 8});
  std::vector<Ids> texts;
  std::vector<RunPart> parts;
  for (int32_t i = 0; i < 8; ++i)
    texts.push_back(
        random_ids(static_cast<size_t>(3 + 5 * i % 17), 10U + static_cast<uint64_t>(i)));
  for (int32_t i = 0; i < 8; ++i) {
    parts.push_back({runner.open(), std::span(texts[static_cast<size_t>(i)]).first(3), 1});
  }
  runner.run(parts);
  for (RunPart& part : parts)
    part.ids = std::span(texts[static_cast<size_t>(part.sequence)]).subspan(3);
  std::erase_if(parts, [](const RunPart& part) { return part.ids.empty(); });
  runner.run(parts);
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_EQ(copy(runner.logits(static_cast<int32_t>(i))),
              after(model, texts[static_cast<size_t>(parts[i].sequence)]))
        << i;
}

TEST_P(Recurrent, SequencesRewindToSnapshots) {
  Model model(folder_of(GetParam()), {.threads = 1});
  const Ids ids = random_ids(60, 2);
  test::OneSequence session(model);
  session.feed(std::span(ids).first(20));
  session.save();
  session.feed(std::span(ids).subspan(20, 15));
  session.save();
  session.feed(std::span(ids).subspan(35));
  EXPECT_EQ(session.nearest(60), 60);
  EXPECT_EQ(session.nearest(59), 35);
  EXPECT_EQ(session.nearest(35), 35);
  EXPECT_EQ(session.nearest(34), 20);
  EXPECT_EQ(session.nearest(19), 0);
  EXPECT_FALSE(session.can_rewind(30));
  EXPECT_FALSE(session.can_rewind(61));
  try {
    session.rewind(30);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(
        error.what(),
        "rewind: the state at token 30 is no longer kept, the nearest kept one is at token 20");
  }
  // Twice, to test that the snapshot is intact after the first rewind.
  for (int turn = 0; turn < 2; ++turn) {
    session.rewind(20);
    const Ids other = random_ids(9, 3U + static_cast<uint64_t>(turn));
    session.feed(other);
    Ids all(ids.begin(), ids.begin() + 20);
    all.insert(all.end(), other.begin(), other.end());
    EXPECT_EQ(copy(session.logits()), after(model, all));
    EXPECT_EQ(session.nearest(29), 29);
    EXPECT_EQ(session.nearest(28), 20);
  }
}

TEST_P(Recurrent, SnapshotMemoryIsDistributed) {
  Model model(folder_of(GetParam()), {.threads = 1});
  Session runner(model, {.snapshots = 3, .snapshot_every = 10});
  const Ids ids = random_ids(100, 4);
  const int32_t sequence = runner.open();
  for (int32_t at = 0; at < 100; at += 10) {
    const RunPart part{sequence, std::span(ids).subspan(static_cast<size_t>(at), 10), 1};
    runner.run({&part, 1});
  }
  // The last snapshot is kept; the others are spaced out.
  EXPECT_EQ(runner.nearest(sequence, 100), 100);
  const int32_t before = runner.nearest(sequence, 99);
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 100);
  EXPECT_GT(runner.nearest(sequence, before - 1), 0);
  runner.rewind(sequence, before);
  const RunPart rest{sequence, std::span(ids).subspan(static_cast<size_t>(before)), 1};
  runner.run({&rest, 1});
  EXPECT_EQ(copy(runner.logits(0)), after(model, ids));
}

// Random operations on sequences, against freshly evaluated sequences.
TEST_P(Recurrent, AnyUseGivesWhatAFreshSequenceGives) {
  Model model(folder_of(GetParam()), {.threads = 1});
  Session runner(model, {.sequences = 3, .snapshots = 4, .snapshot_every = 16});
  test::OneSequence fresh(model);
  struct Known {
    int32_t sequence;
    Ids ids;
  };
  std::vector<Known> known;
  Random random(9);
  const auto below = [&](size_t n) { return static_cast<size_t>(random.next() % n); };
  for (int step = 0; step < 120; ++step) {
    if (known.empty() || (known.size() < 3 && below(6) == 0)) {
      known.push_back({runner.open(), {}});
    } else if (known.size() < 3 && below(4) == 0) {
      const Known& from = known[below(known.size())];
      const int32_t at =
          runner.nearest(from.sequence, static_cast<int32_t>(below(from.ids.size() + 1)));
      known.push_back({runner.fork(from.sequence, at), {from.ids.begin(), from.ids.begin() + at}});
    } else if (below(8) == 0) {
      const size_t i = below(known.size());
      runner.close(known[i].sequence);
      known.erase(known.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    Known& k = known[below(known.size())];
    if (below(3) == 0) runner.save(k.sequence);
    if (below(3) == 0) {
      const int32_t at = runner.nearest(k.sequence, static_cast<int32_t>(below(k.ids.size() + 1)));
      runner.rewind(k.sequence, at);
      k.ids.resize(static_cast<size_t>(at));
    }
    const Ids more = random_ids(1 + below(9), random.next());
    if (k.ids.size() + more.size() > 110) continue;
    k.ids.insert(k.ids.end(), more.begin(), more.end());
    const RunPart part{k.sequence, more, 1};
    runner.run({&part, 1});
    fresh.rewind(0);
    fresh.feed(k.ids);
    ASSERT_EQ(copy(runner.logits(0)), copy(fresh.logits())) << step;
  }
}

std::string test_name(const ::testing::TestParamInfo<const char*>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Recurrent, ::testing::ValuesIn(kFolders), test_name);

}  // namespace
}  // namespace veery

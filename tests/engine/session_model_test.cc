// Many sequences in one run: each has the bits that it has alone, for any batch and any shared
// pages.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/session.h"
#include "sample/sampler.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

using Logits = std::vector<float>;

class ManySequences : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = test::model_path(GetParam());
    VEERY_NEEDS_MODEL(path);
    model_ = std::make_unique<Model>(path, LoadOptions{.context = 1024});
    while (text_.size() < 3000) {
      const auto more = model_->tokenizer().encode(test::read_text(test::fixture_path("text.txt")),
                                                   {.add_special = false});
      text_.insert(text_.end(), more.begin(), more.end());
    }
  }

  /// Returns the prompt of a sequence; texts and lengths differ.
  std::span<const int32_t> prompt(int i) const {
    return std::span(text_).subspan(static_cast<size_t>(37 * i),
                                    static_cast<size_t>(5 + 11 * (i % 7)));
  }
  Logits alone(std::span<const int32_t> ids) const {
    test::OneSequence session(*model_);
    session.feed(ids);
    return copy(session.logits());
  }
  static Logits copy(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

  std::unique_ptr<Model> model_;
  std::vector<int32_t> text_;
};

Logits feed(Session& runner, int32_t sequence, std::span<const int32_t> ids) {
  Logits last;
  for (size_t at = 0; at < ids.size(); at += 100) {
    const RunPart part = {sequence, ids.subspan(at, std::min<size_t>(100, ids.size() - at)), 1};
    runner.run({&part, 1});
    last.assign(runner.logits(0).begin(), runner.logits(0).end());
  }
  return last;
}

TEST_P(ManySequences, GiveInOneBatchWhatTheyGiveAlone) {
  for (const int count : {1, 3, 8, 32}) {
    Session runner(*model_, {.sequences = count});
    std::vector<std::vector<int32_t>> ids(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(runner.open(), i);
      ids[static_cast<size_t>(i)].assign(prompt(i).begin(), prompt(i).end());
      feed(runner, i, prompt(i));
    }
    for (int step = 0; step < 2; ++step) {
      std::vector<RunPart> parts;
      for (int i = 0; i < count; ++i) {
        auto& all = ids[static_cast<size_t>(i)];
        all.push_back(text_[static_cast<size_t>(1000 + 13 * i + step)]);
        parts.push_back({i, {&all.back(), 1}, 1});
      }
      runner.run(parts);
    }
    for (int i = 0; i < count; i += std::max(1, count / 5))
      EXPECT_EQ(copy(runner.logits(i)), alone(ids[static_cast<size_t>(i)]))
          << "sequence " << i << " of " << count;
  }
}

TEST_P(ManySequences, PromptsAndStepsShareARun) {
  Session runner(*model_, {.sequences = 3});
  for (int i = 0; i < 3; ++i) runner.open();
  const auto a = std::span(text_).first(150);
  const auto b = std::span(text_).subspan(200, 61);
  const auto c = std::span(text_).subspan(300, 40);
  feed(runner, 0, a.first(149));
  feed(runner, 2, c.first(20));
  const RunPart parts[] = {{1, b, 2}, {0, a.last(1), 1}, {2, c.subspan(20), 1}};
  runner.run(parts);
  EXPECT_EQ(copy(runner.logits(0)), alone(b.first(60)));
  EXPECT_EQ(copy(runner.logits(1)), alone(b));
  EXPECT_EQ(copy(runner.logits(2)), alone(a));
  EXPECT_EQ(copy(runner.logits(3)), alone(c));
}

TEST_P(ManySequences, TheMostProbableTokenIsThatOfTheLogits) {
  Session runner(*model_, {.sequences = 3});
  std::vector<RunPart> parts;
  for (int i = 0; i < 3; ++i) parts.push_back({runner.open(), prompt(i), 1});
  runner.run(parts);
  std::vector<int32_t> expected;
  for (int i = 0; i < 3; ++i) expected.push_back(argmax(runner.logits(i)));
  const auto again = [&] {
    for (int i = 0; i < 3; ++i) runner.rewind(i, 0);
    runner.run(parts);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(runner.best(i), expected[static_cast<size_t>(i)]);
  };
  for (RunPart& part : parts) part.wants = Wants::kBest;
  again();
  // Next to a part that requests logits, and as the only part with an output.
  parts[1].wants = Wants::kLogits;
  again();
  EXPECT_EQ(copy(runner.logits(1)), alone(prompt(1)));
  for (int i = 0; i < 3; ++i) runner.rewind(i, 0);
  parts[1].outputs = 0;
  parts[2].outputs = 0;
  runner.run(parts);
  EXPECT_EQ(runner.best(0), expected[0]);
}

// The fork point is in the middle of a page, after the window of local layers. Then both sequences
// write to the shared page and to later ones.
TEST_P(ManySequences, ASharedPrefixIsAsGoodAsItsOwn) {
  Session runner(*model_, {.sequences = 3});
  const int32_t first = runner.open();
  const auto whole = std::span(text_).first(900);
  feed(runner, first, whole.first(700));
  const int32_t pages = runner.used_pages();
  const int32_t second = runner.fork(first, 650);
  EXPECT_EQ(runner.position(second), 650);
  EXPECT_EQ(runner.used_pages(), pages);  // pages are copied on write
  std::vector<int32_t> other(whole.begin(), whole.begin() + 650);
  const auto tail = std::span(text_).subspan(2000, 220);
  other.insert(other.end(), tail.begin(), tail.end());
  EXPECT_EQ(feed(runner, second, tail), alone(other));
  EXPECT_EQ(feed(runner, first, whole.subspan(700)), alone(whole));
  const int32_t third = runner.fork(second, 870);
  runner.close(second);
  EXPECT_EQ(feed(runner, third, whole.first(30)).size(), copy(runner.logits(0)).size());
  other.insert(other.end(), whole.begin(), whole.begin() + 30);
  EXPECT_EQ(copy(runner.logits(0)), alone(other));
  runner.close(first);
  runner.close(third);
  EXPECT_EQ(runner.used_pages(), 0);
}

TEST_P(ManySequences, AreRefusedBeforeAnythingMoves) {
  Session runner(*model_, {.sequences = 2, .positions = 512});
  const int32_t a = runner.open();
  const int32_t b = runner.open();
  EXPECT_THROW(runner.open(), Error);
  feed(runner, a, std::span(text_).first(300));  // uses both pages
  const auto refused = [&](std::vector<RunPart> parts, ErrorKind kind) {
    try {
      runner.run(parts);
      ADD_FAILURE() << "was run";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
    }
    EXPECT_EQ(runner.position(a), 300);
    EXPECT_EQ(runner.position(b), 0);
  };
  const auto one = std::span(text_).first(1);
  refused({{b, one, 1}}, ErrorKind::kLimit);  // no page is left
  refused({{a, one, 1}, {a, one, 1}}, ErrorKind::kInput);
  refused({{a, one, 2}}, ErrorKind::kInput);
  refused({{7, one, 1}}, ErrorKind::kInput);
  refused({{a, std::span(text_).first(257), 1}}, ErrorKind::kLimit);  // exceeds the rows of a run
  const int32_t nonsense = -1;
  refused({{a, {&nonsense, 1}, 1}}, ErrorKind::kInput);
  EXPECT_THROW(runner.fork(a, 301), Error);
  runner.rewind(a, 200);
  feed(runner, b, one);  // reuses the released page
  EXPECT_EQ(runner.position(b), 1);
}

INSTANTIATE_TEST_SUITE_P(Models, ManySequences, ::testing::Values(test::kSmolLM2, test::kGemma3),
                         [](const auto& at) { return at.index == 0 ? "SmolLM2" : "Gemma3"; });

}  // namespace
}  // namespace veery

// The bits of a row depend only on the tokens before it, not on prefill chunks, threads or the
// instruction set. Fusion changes little.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

class OneAnswer : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { VEERY_NEEDS_MODEL(path()); }
  std::string path() const { return test::model_path(GetParam()); }
};

std::vector<int32_t> some_tokens(const Model& model, size_t count) {
  std::vector<int32_t> ids;
  while (ids.size() < count) {
    const auto more = model.tokenizer().encode(test::read_text(test::fixture_path("text.txt")),
                                               {.add_special = false});
    ids.insert(ids.end(), more.begin(), more.end());
  }
  ids.resize(count);
  return ids;
}

std::vector<float> logits_of(Model& model, const std::vector<int32_t>& ids, int32_t chunk) {
  test::OneSequence session(model);
  session.set_chunk(chunk);
  session.feed(ids);
  return {session.logits().begin(), session.logits().end()};
}

TEST_P(OneAnswer, DoesNotDependOnChunks) {
  Model model(path(), {.context = 1024, .chunk = 512});
  const auto ids = some_tokens(model, 600);  // crosses a page and the window of local layers
  const auto whole = logits_of(model, ids, 512);
  for (int32_t chunk : {1, 7, 64})
    EXPECT_EQ(logits_of(model, ids, chunk), whole) << "chunks of " << chunk;
}

TEST_P(OneAnswer, DoesNotDependOnThreads) {
  Model two(path(), {.threads = 2, .context = 512});
  const auto ids = some_tokens(two, 70);
  const auto expected = logits_of(two, ids, 64);
  for (int threads : {1, 3}) {
    Model other(path(), {.threads = threads, .context = 512});
    EXPECT_EQ(logits_of(other, ids, 64), expected) << threads << " threads";
    EXPECT_EQ(logits_of(other, ids, 1), expected) << threads << " threads, token by token";
  }
}

TEST_P(OneAnswer, DoesNotDependOnTheInstructionSet) {
  Model best(path(), {.context = 512});
  const auto ids = some_tokens(best, 40);
  const auto expected = logits_of(best, ids, 33);
  std::vector<Target> targets = supported_targets();
  if (std::find(targets.begin(), targets.end(), Target::kAvx512Vnni) != targets.end())
    targets.push_back(Target::kAmxEmulated);
  for (Target target : targets) {
    if (target == Target::kReference) continue;
    Model other(path(), {.context = 512, .target = target});
    EXPECT_EQ(logits_of(other, ids, 33), expected) << name(target);
    EXPECT_EQ(logits_of(other, ids, 1), expected) << name(target) << " token by token";
  }
}

TEST_P(OneAnswer, FusionChangesLittle) {
  Model fused(path(), {.context = 512});
  Model unfused(path(), {.context = 512, .fuse = false});
  const auto ids = some_tokens(fused, 80);
  const auto a = logits_of(fused, ids, 64);
  const auto b = logits_of(unfused, ids, 64);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  EXPECT_LT(worst, 1e-3);
}

TEST_P(OneAnswer, RewindingGivesWhatAFreshSessionGives) {
  Model model(path(), {.context = 512});
  const auto ids = some_tokens(model, 300);
  test::OneSequence session(model);
  session.feed(ids);
  session.rewind(100);
  session.feed(std::span(ids).subspan(100, 57));
  const std::vector<float> again(session.logits().begin(), session.logits().end());
  EXPECT_EQ(again, logits_of(model, {ids.begin(), ids.begin() + 157}, 64));
}

TEST_P(OneAnswer, ChainDecodeEqualsStepping) {
  Model model(path(), {.context = 512});
  const auto ids = some_tokens(model, 20);
  test::OneSequence chained(model);
  test::OneSequence stepped(model);
  chained.feed(ids);
  stepped.feed(ids);
  std::vector<int32_t> out(16);
  ASSERT_EQ(chained.decode_greedy(ids.back(), out), out.size());
  int32_t token = ids.back();
  for (int32_t expected : out) {
    stepped.feed({&token, 1});
    token =
        static_cast<int32_t>(std::max_element(stepped.logits().begin(), stepped.logits().end()) -
                             stepped.logits().begin());
    EXPECT_EQ(token, expected);
  }
}

TEST_P(OneAnswer, TooLongAPromptIsRefusedBeforeAnythingChanges) {
  Model model(path(), {.context = 64});
  test::OneSequence session(model);
  const auto ids = some_tokens(model, 65);
  try {
    session.feed(ids);
    FAIL() << "65 tokens fit a context of 64";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_NE(std::string(error.what()).find("65"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("64"), std::string::npos);
  }
  EXPECT_EQ(session.position(), 0);
  std::vector<int32_t> out(10);
  session.feed(std::span(ids).first(60));
  EXPECT_EQ(session.decode_greedy(ids[60], out), 4U);  // the context ends
}

INSTANTIATE_TEST_SUITE_P(Models, OneAnswer, ::testing::Values(test::kSmolLM2, test::kGemma3),
                         [](const auto& at) { return at.index == 0 ? "SmolLM2" : "Gemma3"; });

}  // namespace
}  // namespace veery

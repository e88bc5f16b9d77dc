// Real weights with KV caches of every type, against an f32 cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/models.h"
#include "support/one_sequence.h"
#include "tasks/perplexity.h"

namespace veery {
namespace {

struct Types {
  const char* name;
  DType keys, values;
  double tie;    ///< greedy text may diverge if the two best logits of f32 are closer than this
  double drift;  ///< maximum relative difference of perplexity
};
constexpr Types kTypes[] = {
    {"f16", DType::kF16, DType::kF16, 0.1, 2.5e-3},
    {"bf16", DType::kBF16, DType::kBF16, 0.25, 5e-3},
    {"q8_0", DType::kQ8_0, DType::kQ8_0, 0.25, 5e-3},
    {"q8_0, f16", DType::kQ8_0, DType::kF16, 0.25, 5e-3},
};

class CacheTypesOfAll : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { VEERY_NEEDS_MODEL(path()); }
  std::string path() const { return test::model_path(GetParam()); }
};
class CacheTypes : public ::testing::Test {
 protected:
  void SetUp() override { VEERY_NEEDS_MODEL(path()); }
  std::string path() const { return test::model_path(test::kSmolLM2); }
  Model load(DType keys, DType values) const {
    return Model(path(), {.context = 512, .cache_keys = keys, .cache_values = values});
  }
};

std::vector<int32_t> text(const Model& model, size_t count) {
  auto ids = model.tokenizer().encode(test::read_text(test::fixture_path("text.txt")),
                                      {.add_special = true});
  ids.resize(std::min(ids.size(), count));
  return ids;
}

// Returns the most probable token, and the difference of its logit to the second largest.
std::pair<int32_t, double> best(std::span<const float> logits) {
  const auto first = std::max_element(logits.begin(), logits.end());
  float second = -INFINITY;
  for (auto at = logits.begin(); at != logits.end(); ++at)
    if (at != first) second = std::max(second, *at);
  return {static_cast<int32_t>(first - logits.begin()), *first - second};
}

TEST_F(CacheTypes, GreedyTextLeavesThatOfF32OnlyAtNearTies) {
  Model f32 = load(DType::kF32, DType::kF32);
  const auto prompt = text(f32, 120);
  test::OneSequence expected(f32);
  expected.feed(prompt);
  std::vector<std::pair<int32_t, double>> steps;
  for (int i = 0; i < 30; ++i) {
    steps.push_back(best(expected.logits()));
    expected.feed({&steps.back().first, 1});
  }
  for (const Types& types : kTypes) {
    Model model = load(types.keys, types.values);
    test::OneSequence session(model);
    session.feed(prompt);
    for (const auto& [token, lead] : steps) {
      if (best(session.logits()).first != token) {
        EXPECT_LT(lead, types.tie) << types.name;
        break;
      }
      session.feed({&token, 1});
    }
  }
}

TEST_F(CacheTypes, PerplexityIsNearThatOfF32) {
  const auto measure = [&](DType keys, DType values) {
    Model model = load(keys, values);
    test::OneSequence session(model);
    return perplexity(model, session, text(model, 1024), 512).perplexity;
  };
  const double expected = measure(DType::kF32, DType::kF32);
  for (const Types& types : {kTypes[0], kTypes[1], kTypes[2]}) {
    const double found = measure(types.keys, types.values);
    EXPECT_NEAR(found / expected, 1, types.drift) << types.name;
    RecordProperty(types.name, std::to_string(found / expected));
  }
}

TEST_P(CacheTypesOfAll, OneAnswerInAnyChunkOrTeam) {
  for (const Types& types : {kTypes[1], kTypes[2]}) {
    LoadOptions options{
        .threads = 2, .context = 256, .cache_keys = types.keys, .cache_values = types.values};
    Model two(path(), options);
    options.threads = 1;
    Model one(path(), options);
    const auto ids = text(two, 40);
    const auto logits = [&](Model& model, int32_t chunk) {
      test::OneSequence session(model);
      session.set_chunk(chunk);
      session.feed(ids);
      return std::vector<float>(session.logits().begin(), session.logits().end());
    };
    const auto expected = logits(two, 40);
    EXPECT_EQ(logits(two, 1), expected) << types.name;
    EXPECT_EQ(logits(one, 33), expected) << types.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CacheTypesOfAll, ::testing::Values(test::kSmolLM2, test::kGemma3),
                         [](const auto& at) { return at.index == 0 ? "SmolLM2" : "Gemma3"; });

}  // namespace
}  // namespace veery

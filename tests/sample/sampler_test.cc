#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kernels/common/softmax_mass.h"
#include "kernels/draw.h"

namespace veery {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Options with all filters off; each test turns on what it tests.
SamplerOptions plain(float temperature = 1) {
  SamplerOptions options;
  options.top_p = 1;
  options.min_p = 0;
  options.top_k = 0;
  options.temperature = temperature;
  return options;
}

std::vector<float> random_logits(size_t count, uint64_t seed, float spread = 2) {
  Random random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = spread * random.normal();
  return logits;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  const double best = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (double logit : logits) p.push_back(std::exp(logit - best));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

/// Returns the documented distribution by applying the filters one by one to a sorted list.
std::vector<double> expected(const std::vector<float>& logits, const SamplerOptions& o) {
  const std::vector<double> p = softmax({logits.begin(), logits.end()});
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<size_t> kept;
  double sum = 0;
  for (size_t id : order) {  // top-p
    if (o.top_p < 1 && !kept.empty() && sum >= o.top_p) break;
    kept.push_back(id);
    sum += p[id];
  }
  std::erase_if(kept, [&](size_t id) { return p[id] < o.min_p * p[order[0]] * (1 - 1e-6); });
  if (o.top_k > 0) kept.resize(std::min(kept.size(), static_cast<size_t>(o.top_k)));
  std::vector<double> result(logits.size(), 0);
  sum = 0;
  for (size_t id : kept)
    sum += result[id] = std::exp((logits[id] - logits[order[0]]) / double{o.temperature});
  for (double& value : result) value /= sum;
  return result;
}

std::vector<int> draw(const std::vector<float>& logits, const SamplerOptions& options, int times) {
  Sampler sampler(options);
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < times; ++i) ++counts[static_cast<size_t>(sampler.sample(logits, {}))];
  return counts;
}

/// Expects no draws outside the support, and a chi-square below its 99.99 % quantile
/// (Wilson-Hilferty approximation).
void expect_draws(const std::vector<float>& logits, const SamplerOptions& options,
                  const std::vector<double>& p) {
  constexpr int kDraws = 10000;
  const std::vector<int> counts = draw(logits, options, kDraws);
  double chi = 0, rest_p = 0, rest_count = 0;
  int cells = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was filtered out";
    } else if (p[i] * kDraws < 8) {  // too rare for a cell of its own
      rest_p += p[i];
      rest_count += counts[i];
    } else {
      chi += std::pow(counts[i] - p[i] * kDraws, 2) / (p[i] * kDraws);
      ++cells;
    }
  }
  if (rest_p * kDraws >= 8) {
    chi += std::pow(rest_count - rest_p * kDraws, 2) / (rest_p * kDraws);
    ++cells;
  }
  ASSERT_GT(cells, 1);
  const double freedom = cells - 1;
  const double a = 2 / (9 * freedom);
  EXPECT_LT(chi, freedom * std::pow(1 - a + 3.72 * std::sqrt(a), 3)) << cells << " cells";
}

void expect_distribution(const std::vector<float>& logits, const SamplerOptions& options) {
  expect_draws(logits, options, expected(logits, options));
}

// Compares with the C library's exp in the widest floating-point type.
TEST(ExpBelowZero, IsAccurateToDoublePrecision) {
  Random random(3);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double u = (random.next() + 0.5) * 0x1p-32;
    const double x = i % 2 == 0 ? -700 * u : -u * std::pow(2.0, -(i % 60));
    const long double exact = std::exp(static_cast<long double>(x));
    worst = std::max(worst, static_cast<double>(std::abs(exp_below_zero(x) - exact) / exact));
  }
  EXPECT_LT(worst, 0x1p-51);
  EXPECT_EQ(exp_below_zero(0), 1);
  EXPECT_EQ(exp_below_zero(-0.0), 1);
  EXPECT_GT(exp_below_zero(-699.9), 0);
  EXPECT_EQ(exp_below_zero(-701), 0);
  EXPECT_EQ(exp_below_zero(-std::numeric_limits<double>::infinity()), 0);
}

TEST(Argmax, TakesTheLowestAmongEqualsAndIgnoresNan) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -5, kNan}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, -kInf}), 0);
  for (size_t count : {15, 16, 17, 100}) {  // full vectors and the remainder
    for (size_t place = 0; place < count; ++place) {
      std::vector<float> logits(count, -3);
      logits[0] = kNan;
      logits[place] = 7;
      logits[count - 1] = 7;
      EXPECT_EQ(argmax(logits), static_cast<int32_t>(place)) << count;
    }
  }
  EXPECT_THROW(argmax(std::vector<float>{kNan, kNan}), Error);
  EXPECT_THROW(argmax({}), Error);
}

TEST(LogSumExp, IsExactWhereExpOverflows) {
  EXPECT_NEAR(log_sum_exp(std::vector<float>{1000, 1000}), 1000 + std::log(2.0), 4e-7);
  EXPECT_NEAR(log_sum_exp(std::vector<float>{-1000, -1001}), -1000 + std::log1p(std::exp(-1.0)),
              4e-7);
}

TEST(LogSumExp, AgreesWithDoublePrecisionAtAnySize) {
  for (size_t count : {1, 3, 1023, 1024, 1025, 50001}) {
    for (float spread : {0.01F, 3.0F, 30.0F}) {
      const auto logits = random_logits(count, count, spread);
      double sum = 0;
      for (float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[0]);
      EXPECT_NEAR(log_sum_exp(logits), logits[0] + std::log(sum), 4e-7 + 1e-14 * count) << count;
    }
  }
  EXPECT_NEAR(log_sum_exp(std::vector<float>{1, kNan, -kInf}), 1, 4e-7);
}

TEST(Divergence, MatchesTheFormula) {
  for (int count : {2, 1000, 1024, 3001}) {
    for (float spread : {0.01F, 3.0F, 30.0F}) {
      const auto right = random_logits(count, count, spread);
      auto logits = random_logits(count, count + 1, 0.1F * spread);
      for (size_t i = 0; i < logits.size(); ++i) logits[i] += right[i] + 5;
      double right_sum = 0, sum = 0, wanted = 0;
      for (float logit : right) right_sum += std::exp(double{logit});
      for (float logit : logits) sum += std::exp(double{logit});
      for (size_t i = 0; i < logits.size(); ++i)
        wanted += std::exp(double{right[i]}) / right_sum *
                  (double{right[i]} - std::log(right_sum) - double{logits[i]} + std::log(sum));
      EXPECT_NEAR(divergence(right, logits), wanted, 2e-6 + 1e-5 * wanted)
          << count << " " << spread;
      EXPECT_EQ(divergence(right, right), 0);
    }
  }
}

TEST(Divergence, SkipsTokensOfZeroReferenceProbability) {
  const std::vector<float> right = {1, 1, -kInf}, logits = {1, 1, 1};
  EXPECT_NEAR(divergence(right, logits), std::log(1.5), 1e-6);
  EXPECT_EQ(divergence(right, right), 0);
  EXPECT_EQ(divergence(logits, right), kInf);
  EXPECT_TRUE(std::isnan(divergence(logits, std::vector<float>{1, 1, kNan})));
}

TEST(Sampler, DrawsFromTheSoftmax) { expect_distribution(random_logits(37, 1), plain()); }

TEST(Sampler, TemperatureSharpensAndFlattens) {
  expect_distribution(random_logits(37, 2), plain(0.5F));
  expect_distribution(random_logits(37, 2), plain(3));
}

TEST(Sampler, EachFilterMatchesItsDefinition) {
  const auto logits = random_logits(101, 3);
  SamplerOptions options = plain();
  options.top_p = 0.7F;
  expect_distribution(logits, options);
  options = plain();
  options.min_p = 0.1F;
  expect_distribution(logits, options);
  options = plain();
  options.top_k = 7;
  expect_distribution(logits, options);
}

TEST(Sampler, FiltersApplyBeforeTemperatureAndToTheWholeMass) {
  for (uint64_t seed = 10; seed < 16; ++seed) {
    const auto logits = random_logits(61, seed, 1.5F);
    SamplerOptions options = plain(seed % 2 == 0 ? 0.6F : 1.7F);
    options.seed = seed;
    options.top_p = 0.8F;
    options.min_p = 0.08F;
    options.top_k = 12;
    expect_distribution(logits, options);
  }
}

TEST(Sampler, TopPWorksBeyondItsFirstSortedPiece) {
  // Nearly uniform: 285 tokens make up 95 % of the mass.
  auto logits = random_logits(300, 4, 0.001F);
  SamplerOptions options = plain();
  options.top_p = 0.95F;
  const auto counts = draw(logits, options, 15000);
  const auto p = expected(logits, options);
  const auto drawn = std::count_if(counts.begin(), counts.end(), [](int n) { return n > 0; });
  const auto allowed = std::count_if(p.begin(), p.end(), [](double value) { return value > 0; });
  EXPECT_EQ(drawn, allowed);
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << i;
    }
  }
}

TEST(Sampler, TopPComparesWithTheMassOfAllTokens) {
  // One token has 30 %; the rest is spread over so many tokens that each is negligible.
  constexpr size_t kCount = 100003;
  std::vector<float> logits(kCount, -12.5F);
  const double rest = (kCount - 1) * std::exp(-12.5);
  logits[77] = static_cast<float>(std::log(rest * 3 / 7));
  SamplerOptions options = plain();
  options.top_p = 0.299F;
  const auto count_others = [&] {
    Sampler sampler(options);
    int others = 0;
    for (int i = 0; i < 60; ++i) others += sampler.sample(logits, {}) != 77;
    return others;
  };
  EXPECT_EQ(count_others(), 0);
  options.top_p = 0.5F;  // includes 28571 of the others, 40 % of the remaining mass
  EXPECT_NEAR(count_others(), 24, 15);
}

TEST(Sampler, ExtremesKeepTheBestToken) {
  const auto logits = random_logits(50, 5);
  const int32_t best = argmax(logits);
  for (auto change :
       {+[](SamplerOptions& o) { o.top_p = 0; }, +[](SamplerOptions& o) { o.min_p = 1; },
        +[](SamplerOptions& o) { o.top_k = 1; }, +[](SamplerOptions& o) { o.temperature = 1e-30F; },
        +[](SamplerOptions& o) { o.temperature = 0; }}) {
    SamplerOptions options = plain();
    change(options);
    Sampler sampler(options);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(sampler.sample(logits, {}), best);
  }
}

TEST(Sampler, NanAndInfinityAreNeverDrawnByAccident) {
  Sampler sampler(plain());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.sample(std::vector<float>{kNan, 1, -kInf, kNan}, {}), 1);
    EXPECT_EQ(sampler.sample(std::vector<float>{3, kInf, 5}, {}), 1);
  }
}

TEST(Sampler, SameSeedSameTokens) {
  const auto logits = random_logits(300, 6);
  SamplerOptions options;
  options.temperature = 2;
  options.min_p = 0;
  const auto sequence = [&](uint64_t seed) {
    options.seed = seed;
    Sampler sampler(options);
    std::vector<int32_t> ids;
    for (int i = 0; i < 40; ++i) ids.push_back(sampler.sample(logits, {}));
    return ids;
  };
  EXPECT_EQ(sequence(7), sequence(7));
  EXPECT_NE(sequence(7), sequence(8));
}

SamplerOptions penalty(float value, int32_t last = 64) {
  SamplerOptions options = plain(0);
  options.repeat_penalty = value;
  options.repeat_last_n = last;
  return options;
}

TEST(RepeatPenalty, DividesPositiveAndMultipliesNegativeLogitsOnce) {
  const std::vector<float> positive{4, 2.5F, 1.5F};
  // 4 / 2 = 2 < 2.5. Counting the repeated token twice, 4 / 4 = 1 < 1.5, would give the same
  // answer, so a second penalty distinguishes the two:
  EXPECT_EQ(Sampler(penalty(2)).sample(positive, std::vector<int32_t>{0, 0, 0}), 1);
  EXPECT_EQ(Sampler(penalty(1.5F)).sample(positive, std::vector<int32_t>{0, 0, 0}),
            0);  // 2.67, not 1.19
  const std::vector<float> negative{-1, -1.5F, -4};
  EXPECT_EQ(Sampler(penalty(2)).sample(negative, std::vector<int32_t>{0}), 1);
  EXPECT_EQ(Sampler(penalty(1.4F)).sample(negative, std::vector<int32_t>{0}), 0);
}

TEST(RepeatPenalty, BelowOneMakesRecentTokensMoreLikely) {
  const std::vector<float> positive{4, 3.9F}, negative{-2, -3};
  EXPECT_EQ(Sampler(penalty(0.9F)).sample(positive, std::vector<int32_t>{1}), 1);
  EXPECT_EQ(Sampler(penalty(0.5F)).sample(negative, std::vector<int32_t>{1}), 1);
  EXPECT_FALSE(Sampler(penalty(0.5F)).greedy());
}

TEST(RepeatPenalty, ActsOnRecentTokensOnly) {
  const std::vector<float> logits{4, 3.9F};
  const std::vector<int32_t> history{1, 0, 1, 1};
  EXPECT_EQ(Sampler(penalty(2, 2)).sample(logits, history), 0);  // token 0 is outside the window
  EXPECT_EQ(Sampler(penalty(2, 0)).sample(logits, std::vector<int32_t>{0}), 0);
  EXPECT_EQ(Sampler(penalty(2, -1)).sample(std::vector<float>{4, 3.9F, 2.2F}, history), 2);
  EXPECT_TRUE(Sampler(penalty(1)).greedy());
  EXPECT_TRUE(Sampler(penalty(2, 0)).greedy());
  EXPECT_FALSE(Sampler(penalty(2)).greedy());
}

TEST(Sampler, AddsBiasesFirst) {
  SamplerOptions options = plain(0);
  options.bias = {{0, -3}, {2, 1}, {99, 5}, {-1, 5}};
  EXPECT_EQ(Sampler(options).sample(std::vector<float>{4, 3, 2.5F}, {}), 2);
  EXPECT_FALSE(Sampler(options).greedy());
}

TEST(FrequencyPenalty, CountsOccurrencesAndPresenceDoesNot) {
  const std::vector<float> logits{4, 3, 2};
  const std::vector<int32_t> history{0, 0, 0, 1};
  SamplerOptions options = plain(0);
  options.frequency_penalty = 0.3F;  // 3.1, 2.7, 2
  EXPECT_EQ(Sampler(options).sample(logits, history), 0);
  options.frequency_penalty = 0.5F;  // 2.5, 2.5, 2
  EXPECT_EQ(Sampler(options).sample(logits, history), 0);
  options.frequency_penalty = 0.6F;  // 2.2, 2.4, 2
  EXPECT_EQ(Sampler(options).sample(logits, history), 1);
  options.frequency_penalty = 0;
  options.presence_penalty = 1.5F;  // 2.5, 1.5, 2
  EXPECT_EQ(Sampler(options).sample(logits, history), 0);
  options.presence_penalty = 2.5F;  // 1.5, 0.5, 2
  EXPECT_EQ(Sampler(options).sample(logits, history), 2);
  options.repeat_last_n = 1;  // only token 1 is in the window
  EXPECT_EQ(Sampler(options).sample(logits, history), 0);
}

// Measures the penalty of DRY by bisection: the logit at which token `id` becomes the best.
float dry_penalty(SamplerOptions options, int32_t id, const std::vector<int32_t>& history) {
  float low = 0, high = 4096;
  for (int i = 0; i < 40; ++i) {
    const float middle = (low + high) / 2;
    std::vector<float> logits(8, -1e6F);
    logits[7] = 0;
    logits[static_cast<size_t>(id)] = middle;  // wins if the penalty is smaller
    (Sampler(options).sample(logits, history) == id ? high : low) = middle;
  }
  return high;
}

TEST(Dry, GrowsWithTheLongestRepetitionThatATokenContinues) {
  SamplerOptions options = plain(0);
  options.dry_multiplier = 0.5F;
  options.dry_base = 2;
  // "1 2 3" occurs twice before: 4 would continue a repetition of three tokens, 5 one of two.
  const std::vector<int32_t> history{1, 2, 3, 4, 0, 2, 3, 5, 0, 1, 2, 3};
  EXPECT_NEAR(dry_penalty(options, 4, history), 0.5 * 2, 1e-3);
  EXPECT_NEAR(dry_penalty(options, 5, history), 0.5 * 1, 1e-3);
  EXPECT_NEAR(dry_penalty(options, 6, history), 0, 1e-3);
  options.dry_allowed_length = 3;
  EXPECT_NEAR(dry_penalty(options, 4, history), 0.5, 1e-3);
  EXPECT_NEAR(dry_penalty(options, 5, history), 0, 1e-3);
  options.dry_allowed_length = 2;
  options.dry_last_n = 8;  // the window starts at the first 0
  EXPECT_NEAR(dry_penalty(options, 4, history), 0, 1e-3);
  EXPECT_NEAR(dry_penalty(options, 5, history), 0.5, 1e-3);
  options.dry_last_n = -1;
  options.dry_breakers = std::make_shared<const std::vector<bool>>(
      std::vector<bool>{false, true, false, false, false, false, false, false});
  // Only "2 3" counts: token 1 is a breaker.
  EXPECT_NEAR(dry_penalty(options, 4, history), 0.5, 1e-3);
}

TEST(Dry, CountsRunsOfOneToken) {
  SamplerOptions options = plain(0);
  options.dry_multiplier = 1;
  options.dry_base = 1.5F;
  EXPECT_NEAR(dry_penalty(options, 3, {3, 3, 3, 3, 3, 3}), std::pow(1.5, 3), 1e-2);
}

TEST(TopNSigma, KeepsLogitsWithinNStandardDeviationsOfTheBest) {
  const std::vector<float> logits{3, 2, 1, 0, -1, -2};  // standard deviation 1.7078
  SamplerOptions options = plain();
  options.top_n_sigma = 1;
  std::vector<double> p = softmax({3, 2});
  p.resize(logits.size(), 0);
  expect_draws(logits, options, p);
}

TEST(TypicalP, KeepsTokensWithSurpriseClosestToTheEntropy) {
  // Probabilities 0.5, 0.2, 0.2, 0.1: entropy 1.2206, surprises 0.69, 1.61, 1.61, 2.30.
  const std::vector<float> logits{std::log(0.5F), std::log(0.2F), std::log(0.2F), std::log(0.1F)};
  SamplerOptions options = plain();
  options.typical_p = 0.3F;
  expect_draws(logits, options, {0, 0.5, 0.5, 0});
  options.typical_p = 0.5F;
  expect_draws(logits, options, {0.5 / 0.9, 0.2 / 0.9, 0.2 / 0.9, 0});
}

TEST(Xtc, DropsAllButTheLeastProbableOfTheTopChoices) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  SamplerOptions options = plain();
  options.xtc_probability = 1;
  options.xtc_threshold = 0.2F;
  expect_draws(logits, options, {0, 0.6, 0.3, 0.1});
  options.xtc_probability = 0.5F;
  expect_draws(logits, options, {0.25, 0.15 + 0.3, 0.075 + 0.15, 0.025 + 0.05});
  options.xtc_threshold = 0.4F;  // only one token is above: nothing is dropped
  expect_draws(logits, options, {0.5, 0.3, 0.15, 0.05});
}

TEST(DynamicTemperature, FollowsTheEntropy) {
  const std::vector<float> even(4, 1.0F), logits{2, 1, 0};
  SamplerOptions options = plain();
  options.dynatemp_range = 0.5F;
  expect_draws(even, options, {0.25, 0.25, 0.25, 0.25});
  const std::vector<double> p = softmax({2, 1, 0});
  double entropy = 0;
  for (const double x : p) entropy -= x * std::log(x);
  for (const float exponent : {1.0F, 2.0F}) {
    options.dynatemp_exponent = exponent;
    const double t = 0.5 + std::pow(entropy / std::log(3.0), exponent);
    expect_draws(logits, options, softmax({2 / t, 1 / t, 0}));
  }
}

// Tracks the bound alongside the sampler: each chosen token is within it, and the average surprise
// approaches tau.
TEST(Mirostat, AverageSurpriseApproachesTau) {
  const std::vector<float> logits = random_logits(500, 3, 2);
  const std::vector<double> p = softmax({logits.begin(), logits.end()});
  for (const float tau : {2.0F, 5.0F}) {
    SamplerOptions options = plain();
    options.mirostat = 2;
    options.mirostat_tau = tau;
    options.mirostat_eta = 0.1F;
    Sampler sampler(options);
    double bound = 2 * tau, mean = 0;
    for (int i = 0; i < 1500; ++i) {
      const double chosen = p[static_cast<size_t>(sampler.sample(logits, {}))];
      ASSERT_LE(-std::log2(chosen),
                std::max(bound, -std::log2(*std::ranges::max_element(p))) + 1e-4);
      double kept = 0;
      for (const double x : p) kept += -std::log2(x) <= bound ? x : 0;
      const double surprise = -std::log2(chosen / std::max(kept, chosen));
      bound -= options.mirostat_eta * (surprise - tau);
      if (i >= 500) mean += surprise / 1000;
    }
    EXPECT_NEAR(mean, tau, 0.1) << tau;
  }
}

/// The `count` largest, as the op top_k gives them.
struct Largest {
  std::vector<int32_t> indices;
  std::vector<float> values;
  TopLogits top;
  Largest(const std::vector<float>& logits, size_t count) : indices(logits.size()) {
    std::iota(indices.begin(), indices.end(), 0);
    const auto at = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
    std::ranges::stable_sort(indices, std::greater<>(), at);
    indices.resize(std::min(count, indices.size()));
    for (const int32_t id : indices) values.push_back(at(id));
    top = {values, indices, static_cast<float>(softmax_mass(logits, values.front()))};
  }
};

// Either the same tokens as from all logits, or no token and no random number drawn.
TEST(Sampler, TopLogitsSufficeIfFiltersKeepFewTokens) {
  std::vector<SamplerOptions> all(6, plain());
  all[0] = {};
  all[1].top_k = 40;
  all[2].min_p = 0.05F;
  all[3].top_p = 0.9F;
  all[4].top_p = 0.8F, all[4].typical_p = 0.7F, all[4].xtc_probability = 0.5F;
  all[5].top_k = 20, all[5].dynatemp_range = 0.5F;
  for (const SamplerOptions& options : all) {
    Sampler sampler(options), other(options);
    ASSERT_TRUE(sampler.takes_top());
    int told = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const auto logits = random_logits(900, seed, seed % 2 == 0 ? 3.0F : 1.0F);
      const auto from_top = sampler.sample(Largest(logits, 128).top);
      if (from_top) ++told;
      EXPECT_EQ(from_top ? *from_top : sampler.sample(logits, {}), other.sample(logits, {}));
    }
    EXPECT_GE(told, 15);
  }
}

TEST(Sampler, TopLogitsAreInsufficientIfFiltersKeepMoreTokens) {
  const auto logits = random_logits(900, 3, 0.1F);
  for (const float top_p : {0.9F, 1.0F}) {
    SamplerOptions options = plain();
    options.top_p = top_p;
    options.min_p = top_p == 1 ? 0.1F : 0;
    EXPECT_FALSE(Sampler(options).sample(Largest(logits, 128).top));
  }
  SamplerOptions options;
  EXPECT_FALSE(Sampler(options).sample(Largest({1, kInf, 2}, 128).top));
  for (const auto& change : std::initializer_list<void (*)(SamplerOptions&)>{
           [](SamplerOptions& o) { o.temperature = 0; },
           [](SamplerOptions& o) { o.repeat_penalty = 1.1F; },
           [](SamplerOptions& o) { o.mirostat = 2; }, [](SamplerOptions& o) { o.top_n_sigma = 1; },
           [](SamplerOptions& o) { o.top_k = 0, o.top_p = 1, o.min_p = 0; }}) {
    SamplerOptions changed;
    change(changed);
    EXPECT_FALSE(Sampler(changed).takes_top());
  }
}

}  // namespace
}  // namespace veery

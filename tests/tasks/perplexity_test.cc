// Perplexity of a model, and comparison of two models.
#include "tasks/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "chat/chat.h"
#include "sample/sampler.h"
#include "support/one_sequence.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using test::TinyModel;

TEST(Perplexity, ScoresTheSecondHalfOfEachWindow) {
  const TinyModel file;
  Model model(file.path(), {.threads = 1});
  std::vector<int32_t> ids{TinyModel::kBos};
  for (int i = 0; i < 40; ++i) ids.push_back((i * 37) % 256);
  test::OneSequence session(model);
  const Perplexity result = perplexity(model, session, ids, 16);
  ASSERT_EQ(result.window_means.size(), 2U);  // 41 ids: 9 are dropped
  EXPECT_EQ(result.tokens, 14);               // positions 8 to 14 predict 9 to 15

  double nll = 0, squares = 0;
  for (size_t w = 0; w < 2; ++w) {
    std::vector<int32_t> window(ids.begin() + static_cast<ptrdiff_t>(16 * w),
                                ids.begin() + static_cast<ptrdiff_t>(16 * w + 16));
    window[0] = TinyModel::kBos;
    test::OneSequence fresh(model);
    for (size_t i = 0; i + 1 < 16; ++i) {
      fresh.feed({&window[i], 1});
      if (i < 8) continue;
      const double value =
          log_sum_exp(fresh.logits()) - fresh.logits()[static_cast<size_t>(window[i + 1])];
      nll += value;
      squares += value * value;
    }
  }
  EXPECT_NEAR(result.perplexity, std::exp(nll / 14), 1e-3 * result.perplexity);
  const double error = std::sqrt((squares / 14 - nll * nll / 14 / 14) / 13) * std::exp(nll / 14);
  EXPECT_NEAR(result.standard_error, error, 1e-2 * error);
  EXPECT_THROW(perplexity(model, session, std::span(ids).first(15), 16), Error);
}

constexpr const char* kText = "Forty-one bytes of text, BOS not counted.";

std::vector<std::vector<float>> all_logits(Model& model, std::span<const int32_t> ids) {
  test::OneSequence session(model);
  std::vector<std::vector<float>> result;
  session.feed_all(ids, [&](int32_t, std::span<const float> logits) {
    result.emplace_back(logits.begin(), logits.end());
  });
  return result;
}

TEST(Comparison, ScoresTheSameTokensOfBothModels) {
  const TinyModel file, other_file("", true, 12);
  Model model(file.path(), {.threads = 1}), other(other_file.path(), {.threads = 2});
  const auto ids = encode_prompt(model.tokenizer(), kText);
  ASSERT_EQ(ids.size(), 42U);
  const Comparison result = compare(model, other, kText, 20);

  test::OneSequence session(model), other_session(other);
  const Perplexity alone = perplexity(model, session, ids, 20);
  const Perplexity other_alone = perplexity(other, other_session, ids, 20);
  EXPECT_EQ(result.model.perplexity, alone.perplexity);
  EXPECT_EQ(result.model.standard_error, alone.standard_error);
  EXPECT_EQ(result.model.window_means, alone.window_means);
  EXPECT_EQ(result.reference.perplexity, other_alone.perplexity);
  EXPECT_EQ(result.reference.tokens, 18);

  std::vector<double> divergences, ratios;
  double same = 0;
  for (size_t w = 0; w < 2; ++w) {
    std::vector<int32_t> window(ids.begin() + static_cast<ptrdiff_t>(20 * w),
                                ids.begin() + static_cast<ptrdiff_t>(20 * w + 20));
    window[0] = TinyModel::kBos;
    const auto logits = all_logits(model, window), right = all_logits(other, window);
    for (size_t i = 10; i < 19; ++i) {
      const auto next = static_cast<size_t>(window[i + 1]);
      divergences.push_back(divergence(right[i], logits[i]));
      ratios.push_back(log_sum_exp(logits[i]) - logits[i][next] - log_sum_exp(right[i]) +
                       right[i][next]);
      same += argmax(right[i]) == argmax(logits[i]) ? 1 : 0;
    }
  }
  const auto expect = [](const Estimate& found, const std::vector<double>& values, double factor) {
    const auto n = static_cast<double>(values.size());
    double mean = 0, variance = 0;
    for (const double value : values) mean += value / n;
    for (const double value : values) variance += (value - mean) * (value - mean) / n;
    EXPECT_NEAR(found.error, factor * std::sqrt(variance / (n - 1)), 1e-6 * factor);
    return mean;
  };
  EXPECT_NEAR(result.divergence.value, expect(result.divergence, divergences, 1), 1e-9);
  const double ratio = alone.perplexity / other_alone.perplexity;
  EXPECT_NEAR(result.ratio.value, ratio, 1e-9 * ratio);
  EXPECT_NEAR(std::log(result.ratio.value), expect(result.ratio, ratios, ratio), 1e-9);
  EXPECT_NEAR(result.same_best.value, same / 18, 1e-12);
  EXPECT_GT(result.divergence.value, 0.01);
}

TEST(Comparison, OfAModelWithItselfFindsNoDifference) {
  const TinyModel file;
  Model model(file.path(), {.threads = 1}), same(file.path(), {.threads = 2});
  const Comparison result = compare(model, same, kText, 20);
  EXPECT_EQ(result.divergence.value, 0);
  EXPECT_EQ(result.divergence.error, 0);
  EXPECT_EQ(result.same_best.value, 1);
  EXPECT_EQ(result.ratio.value, 1);
  EXPECT_GT(result.model.standard_error, 0);
}

std::string refusal(Model& model, Model& reference) {
  try {
    compare(model, reference, kText, 20);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "none";
}

TEST(Comparison, NeedsTheSameTokensAndVocabulary) {
  const TinyModel file, without_bos("", false);
  Model model(file.path(), {.threads = 1}), bare(without_bos.path(), {.threads = 1});
  EXPECT_NE(refusal(model, bare).find("token 0 is 256 and 70"), std::string::npos)
      << refusal(model, bare);
  Model smaller(model, [](ModelFile& changed, TransformerConfig& config) {
    config.vocab = TinyModel::kVocabulary - 1;
    for (TensorView& tensor : changed.tensors) {
      if (tensor.name != "token_embd.weight" && tensor.name != "output.weight") continue;
      tensor.shape[0] = config.vocab;
      tensor.data = tensor.data.first(byte_size(tensor.dtype, tensor.elements()));
    }
  });
  EXPECT_NE(refusal(smaller, model).find("258 tokens"), std::string::npos)
      << refusal(smaller, model);
}

}  // namespace
}  // namespace veery

// draw.h: the arithmetic of drawing a token, shared by the sampler and GPU kernels.
#pragma once
#include <cstdint>
#include <cstring>

#include "base/everywhere.h"
#include "kernels/draw_settings.h"

namespace veery {

/// Returns exp(x) for x <= 0 with a relative error of 2^-51; 0 below -700 and for NaN. It uses only
/// products and sums, so that, unlike that of the C library, it has the same bits everywhere.
VEERY_EVERYWHERE double exp_below_zero(double x) {
  if (!(x > -700)) return 0;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double shifted = x * 1.4426950408889634 + kRound;
  const double n = shifted - kRound;
  // x - n log 2, with log 2 in two parts so that the product with the first one is exact. |f| is
  // below 0.35, so the omitted terms of the series are below 2^-57.
  const double f = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  constexpr double kTerms[] = {1.0 / 6227020800,
                               1.0 / 479001600,
                               1.0 / 39916800,
                               1.0 / 3628800,
                               1.0 / 362880,
                               1.0 / 40320,
                               1.0 / 5040,
                               1.0 / 720,
                               1.0 / 120,
                               1.0 / 24,
                               1.0 / 6,
                               1.0 / 2,
                               1.0,
                               1.0};
  double series = kTerms[0];
  for (int i = 1; i < 14; ++i) series = series * f + kTerms[i];
  uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return series * power;
}

/// Returns the penalised logit of a token that occurs `times` times among the recent tokens.
VEERY_EVERYWHERE float penalized(float logit, const Penalties& by, int32_t times) {
  if (by.repeat > 1) logit = logit > 0 ? logit / by.repeat : logit * by.repeat;
  logit -= by.frequency * static_cast<float>(times);
  logit -= by.presence;
  return logit;
}

/// Returns the weight of a candidate in the cumulative sum of top-p (temperature 1).
VEERY_EVERYWHERE double mass_of(float logit, float best) {
  return exp_below_zero(static_cast<double>(logit) - best);
}
/// Returns the weight of a candidate in the draw.
VEERY_EVERYWHERE double draw_weight(float logit, double best, float temperature) {
  return exp_below_zero((static_cast<double>(logit) - best) / temperature);
}

struct Drawn {
  int32_t index;
  double total;  ///< sum of the weights
};
/// Draws a candidate: the first whose cumulative weight exceeds (number + 0.5) / 2^32 of the total.
VEERY_EVERYWHERE Drawn drawn(const double* weights, int32_t count, uint32_t number) {
  double total = 0;
  for (int32_t i = 0; i < count; ++i) total += weights[i];
  double rest = (number + 0.5) * 0x1p-32 * total;
  for (int32_t i = 0; i < count; ++i) {
    rest -= weights[i];
    if (rest < 0) return {i, total};
  }
  return {0, total};
}

}  // namespace veery

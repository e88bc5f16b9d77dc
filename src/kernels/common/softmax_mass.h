// softmax_mass.h: the sum that turns logits into probabilities, in one order of adding.
#pragma once
#include <bit>
#include <cstdint>
#include <span>

namespace veery {

/// What quick_exp() takes; below it, and for NaN, exp gives a number that no sum notices.
inline float clamp_exponent(float x) { return x > -87.0F ? x : -87.0F; }

/// exp(x) for -87 <= x <= 0 to a relative 4e-7, without a branch.
inline float quick_exp(float x) {
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  // x - n log 2, with log 2 in two parts so that the product with the first is exact. Within 0.35:
  // six terms of the series are enough.
  const float f = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  const float series =
      1 + f * (1 + f * (1.0F / 2 +
                        f * (1.0F / 6 + f * (1.0F / 24 + f * (1.0F / 120 + f * (1.0F / 720))))));
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  return series * std::bit_cast<float>(exponent);
}

/// The sum of exp(x - largest) over a row, the relative error below 4e-7: what is no number counts
/// nothing. In double: each piece of 1,024 is summed by 16 chains, which are then added i to i + 8,
/// + 4, + 2, + 1; of the pieces every 16th is one chain, and those are added likewise. top_k() of
/// kernels/gpu has the same order.
double softmax_mass(std::span<const float> row, float largest);

}  // namespace veery

// softmax_mass.h: the denominator of a softmax over logits, with a fixed order of additions.
#pragma once
#include <bit>
#include <cstdint>
#include <span>

namespace veery {

/// Clamps x to the domain of quick_exp(). exp(-87), the result for smaller x and NaN, is too small
/// to change a sum.
inline float clamp_exponent(float x) { return x > -87.0F ? x : -87.0F; }

/// Returns exp(x) for -87 <= x <= 0 with a relative error of 4e-7, without branches.
inline float quick_exp(float x) {
  constexpr float kRound = 0x1.8p23F;  // adding it puts the nearest integer into the low bits
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  // f = x - n log 2, |f| < 0.35, for which six terms of the series suffice. log 2 is split into two
  // parts, so that the product with the first is exact.
  const float f = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  const float series =
      1 + f * (1 + f * (1.0F / 2 +
                        f * (1.0F / 6 + f * (1.0F / 24 + f * (1.0F / 120 + f * (1.0F / 720))))));
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  return series * std::bit_cast<float>(exponent);
}

/// Returns the sum of exp(x - largest) over a row, with a relative error below 4e-7. NaNs
/// contribute (almost) nothing. Order of additions, in double: a piece of 1,024 elements is summed
/// by 16 interleaved accumulators, which are then added as a tree (i and i + 8, + 4, + 2, + 1).
/// Pieces are summed in the same way: piece p goes to accumulator p % 16. The GPU kernel top_k()
/// uses the same order.
double softmax_mass(std::span<const float> row, float largest);

}  // namespace veery

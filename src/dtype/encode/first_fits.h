// first_fits.h: the starting scales and offsets of the search for the best ones.
#pragma once
#include <span>

#include "dtype/code_range.h"

namespace veery {

// Few starting points suffice, because each is refined by least squares. They were chosen greedily,
// each by how much it lowered the mean squared error over real weights, Gaussian weights and
// weights with importances.

/// Returns the starting factors f: the element of largest magnitude is first mapped to range.low *
/// f.
inline std::span<const float> first_scales(CodeRange range) {
  struct Row {
    int levels;  // largest number of codes
    std::span<const float> factors;
  };
  static constexpr float k3[] = {1.25F, 1.525F, 1.6625F, 1.9375F, 2.2125F, 2.625F, 3.45F};
  static constexpr float k8[] = {0.8F, 0.9333F, 1.0F,  1.1F,     1.2F,
                                 1.3F, 1.5F,    -1.0F, -1.1333F, -1.4333F};
  static constexpr float k16[] = {0.88F, 0.976F, 1.024F, 1.072F, 1.14F, -1.072F};
  static constexpr float k32[] = {0.84F, 0.88F, 0.94F, 1.0F, 1.04F, 1.1F};
  static constexpr float k64[] = {0.85F, 0.88F, 0.93F, 0.975F, 1.0F, 1.025F};
  static constexpr float k256[] = {0.94F,   0.9486F, 0.9571F, 0.9657F,
                                   0.9743F, 0.9829F, 0.9914F, 1.0F};
  static constexpr Row kRows[] = {{3, k3}, {8, k8}, {16, k16}, {32, k32}, {64, k64}, {256, k256}};
  const Row* row = kRows;
  while (range.high - range.low + 1 > row->levels) ++row;
  return row->factors;
}

/// A starting point of an affine fit: the range from the smallest to the largest element is treated
/// as if it had `factor` times as many codes. The point at fraction `held` of the range stays
/// fixed.
struct FirstMap {
  float held, factor;
};

/// Returns the starting points for codes that begin at 0.
inline std::span<const FirstMap> first_maps(CodeRange range) {
  static constexpr FirstMap k4[] = {{0.5F, 1.1F}, {0.5F, 1.4F}, {0, 1.1F}, {0, 1.18F},
                                    {0, 1.35F},   {1, 1.1F},    {1, 1.2F}, {1, 1.4F}};
  static constexpr FirstMap k16[] = {{0.5F, 1.018F}, {0.5F, 0.91F}, {0, 1.03F},
                                     {1, 0.93F},     {1, 1.018F},   {1, 1.05F}};
  static constexpr FirstMap k32[] = {{0.5F, 0.95F}, {0, 0.98F}, {0, 1.018F}, {1, 0.91F},
                                     {1, 0.9677F},  {1, 1.0F},  {1, 1.018F}};
  if (range.high < 4) return k4;
  if (range.high < 16) return k16;
  return k32;
}

}  // namespace veery

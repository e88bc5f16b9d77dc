// grid_format.h: what the encoders of grid points (IQ1, IQ2, IQ3) need to know of each format.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// A point is `elements` digits below `digits`, each standing for one of few values; a block of 256
/// has a scale (2 s + 1) d for each `sub` elements.
struct GridFormat {
  int elements = 8;
  int digits = 3;
  int sub = 32;
  int largest_scale = 15;   ///< of s
  int variants = 1;         ///< sets of values, one of which a run of points chooses
  int variant_points = 1;   ///< points that choose together
  bool signs = true;        ///< elements have a sign of their own, values are magnitudes
  bool even_signs = false;  ///< the number of minus signs of 8 elements is even
  float reach = 1;          ///< usual largest value over root mean square
  int rounds = 2;  ///< of improving scales and points in turn: what large grids have time for
  std::array<std::array<float, 8>, 2> values = {};  ///< as the decoder has them for d = 1
  /// Of each point, the numbers whose digits are its first and second half, the first the least.
  std::vector<uint8_t> first, second;
  std::vector<std::array<uint8_t, 8>> point_digits;
};

/// Of IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S.
const GridFormat& grid_format(DType type);

/// A block of 256 in parts.
struct GridBlock {
  float d = 0;  ///< a value of f16
  int scales[16] = {};
  uint16_t points[64] = {};
  uint8_t variants[64] = {};
  uint8_t signs[32] = {};  ///< of 8 elements each, 1 for minus
};

}  // namespace veery

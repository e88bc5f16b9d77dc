// grid_format.h: parameters of the grid formats (IQ1, IQ2, IQ3) for their encoders.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// The grid format of a type. A point consists of `elements` digits below `digits`, each of which
/// stands for a value. A block of 256 has a scale (2 s + 1) d for each `sub` elements.
struct GridFormat {
  int elements = 8;
  int digits = 3;
  int sub = 32;
  int largest_scale = 15;  ///< maximum of s
  /// Number of value sets; consecutive points choose one of them together.
  int variants = 1;
  int variant_points = 1;   ///< number of points that choose a value set together
  bool signs = true;        ///< each element has a sign, and values are magnitudes
  bool even_signs = false;  ///< the number of minus signs of 8 elements is even
  float reach = 1;          ///< typical ratio of the largest value to the root mean square
  /// Iterations of improving scales and points, limited by the time that large grids take.
  int rounds = 2;
  std::array<std::array<float, 8>, 2> values = {};  ///< decoded values for d = 1
  /// For each point, the numbers formed by the digits of its first and of its second half, least
  /// significant digit first.
  std::vector<uint8_t> first, second;
  std::vector<std::array<uint8_t, 8>> point_digits;
};

/// Returns the format of IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS or IQ3_S.
const GridFormat& grid_format(DType type);

/// The fitted parts of a block of 256.
struct GridBlock {
  float d = 0;  ///< exactly representable in f16
  int scales[16] = {};
  uint16_t points[64] = {};
  uint8_t variants[64] = {};
  uint8_t signs[32] = {};  ///< a byte for 8 elements, bits 1 for minus
};

}  // namespace veery

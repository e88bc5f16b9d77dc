// fit.h: least-squares search for the scales, minima and codes of one quantised block.
#pragma once
#include <cstdint>
#include <span>

namespace veery {

/// Least and largest code (both included).
struct CodeRange {
  int low;
  int high;
};

/// x is about scale * code + offset.
struct Affine {
  float scale = 0;
  float offset = 0;
};

float largest_magnitude(std::span<const float> x);

/// The nearest code of each element; all as near to 0 as the range allows if the scale is 0.
void quantize(std::span<const float> x, Affine map, CodeRange range, int8_t* codes);

/// The scale of scale * code that minimises the squared error over `x` (finite, not all zero).
float fit_scale(std::span<const float> x, CodeRange range);

/// The same for scale * code + offset, scale >= 0. Unless `any_offset`, the offset is at most 0.
Affine fit_affine(std::span<const float> x, CodeRange range, bool any_offset);

/// A block of 256 whose sub-blocks have integer scales (and minima): d * scale * code - dmin * min.
struct SuperFormat {
  int sub_block;  ///< elements of a sub-block
  CodeRange codes;
  CodeRange scales;
  int largest_min = 0;  ///< 0: no minima
};

struct SuperBlock {
  uint16_t d = 0;     ///< f16 bits
  uint16_t dmin = 0;  ///< f16 bits
  int scales[16] = {};
  int mins[16] = {};
  int8_t codes[256] = {};
};

/// Fits all parts together. If the scales do not fit f16, d or dmin is infinite and the codes are
/// zero.
void fit_super_block(std::span<const float> x, const SuperFormat& format, SuperBlock& out);

}  // namespace veery

// code_range.h: what the encoders of blocks share over all instruction sets.
#pragma once
#include <array>
#include <cstdint>

namespace veery {

/// Least and largest code (both included).
struct CodeRange {
  int low;
  int high;
};

/// A block of 256 whose sub-blocks have integer scales (and minima): d * scale * code - dmin * min.
struct SuperFormat {
  CodeRange codes;
  CodeRange scales;
  int largest_min = 0;  ///< 0: no minima
};

struct SuperBlock {
  float d = 0;  ///< a value of f16
  float dmin = 0;
  int scales[16] = {};
  int mins[16] = {};
  int8_t codes[256] = {};
};

/// The values of a code book, ascending.
using Book = std::array<float, 16>;

}  // namespace veery

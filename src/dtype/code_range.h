// code_range.h: types that the block encoders of all instruction sets share.
#pragma once
#include <array>
#include <cstdint>

namespace veery {

/// Smallest and largest code (inclusive).
struct CodeRange {
  int low;
  int high;
};

/// The format of a block of 256 whose sub-blocks have integer scales and, optionally, minima:
/// element = d * scale * code - dmin * min.
struct SuperFormat {
  CodeRange codes;
  CodeRange scales;
  int largest_min = 0;  ///< 0: no minima
};

struct SuperBlock {
  float d = 0;  ///< exactly representable in f16
  float dmin = 0;
  int scales[16] = {};
  int mins[16] = {};
  int8_t codes[256] = {};
};

/// The values of a code book, in ascending order.
using Book = std::array<float, 16>;

}  // namespace veery

// fused.h: a multiplication and an addition with one rounding, on processors without an instruction
// for it.
#pragma once
#include <cstdint>

namespace veery {

/// a b + c rounded once, to nearest even, as std::fma. That takes ten times as long where the
/// processor has no instruction for it. The product is exact in double; the sum is rounded to odd,
/// so that rounding it once more gives the nearest float (Boldo and Melquiond, "Emulation of FMA
/// and correctly rounded sums: proved algorithms using rounding to odd", 2008).
inline float fused(float a, float b, float c) {
  const double p = double{a} * double{b};
  const double s = p + double{c};
  const double part = s - p;
  const double lost = (p - (s - part)) + (double{c} - part);  // s + lost = p + c (Knuth's two-sum)
  int64_t bits = __builtin_bit_cast(int64_t, s);
  if ((lost < 0 || lost > 0) && (bits & 1) == 0) bits += (lost > 0) == (bits > 0) ? 1 : -1;
  return static_cast<float>(__builtin_bit_cast(double, bits));
}

}  // namespace veery

// fused.h: fused multiply-add on processors without an fma instruction.
#pragma once
#include <cstdint>

namespace veery {

/// Returns a b + c rounded once, to nearest even, as std::fma() does; std::fma() takes ten times as
/// long on processors without the instruction. The product is exact in double. The sum is rounded
/// to odd, so that rounding it to float gives the correctly rounded result (Boldo and Melquiond,
/// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
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

// erfinv.h: the inverse of the error function.
#pragma once
#include <cmath>

#include "base/everywhere.h"

namespace veery {

/// Returns y with erf(y) = x, to the last bits of a double: an estimate (Winitzki, "A handy
/// approximation for the error function and its inverse", 2008) and three steps of Newton. +-1
/// gives +-infinity, a number beyond them NaN.
VEERY_EVERYWHERE double erfinv(double x) {
  if (!(x > -1 && x < 1)) return x == 1 || x == -1 ? x * HUGE_VAL : HUGE_VAL - HUGE_VAL;
  if (x == 0) return x;
  constexpr double kA = 0.147, kPi = 3.14159265358979323846;
  const double log = std::log1p(-x * x);
  const double b = 2 / (kPi * kA) + log / 2;
  double y = std::copysign(std::sqrt(std::sqrt(b * b - log / kA) - b), x);
  for (int i = 0; i < 3; ++i) {
    // Near +-1 the complement keeps the digits that erf loses, near 0 erf itself.
    const double error = std::fabs(x) < 0.5 ? std::erf(y) - x
                         : x > 0            ? (1 - x) - std::erfc(y)
                                            : std::erfc(-y) - (1 + x);
    y -= error * std::exp(y * y) * std::sqrt(kPi) / 2;
  }
  return y;
}

}  // namespace veery

// soft_fma.h: fused multiply-add in f64, emulated in integer arithmetic (soft_f64.h).
#pragma once
#include "kernels/gpu/dialect/soft_functions.h"

namespace veery::gpu {

/// An unsigned 128-bit integer.
struct Wide {
  uint64_t high, low;
};
VEERY_GPU int leading_zeros(Wide x) {
  return x.high != 0 ? leading_zeros(x.high) : 64 + leading_zeros(x.low);
}
VEERY_GPU Wide shifted_up(Wide x, int by) {
  if (by == 0) return x;
  if (by >= 64) return {x.low << (by - 64), 0};
  return {x.high << by | x.low >> (64 - by), x.low << by};
}
/// Shifts right; the last bit of the result is sticky.
VEERY_GPU Wide shifted_down(Wide x, int by) {
  if (by == 0) return x;
  if (by >= 128) return {0, (x.high | x.low) != 0 ? uint64_t{1} : uint64_t{0}};
  if (by > 64) {
    const bool lost = (x.high << (128 - by) | x.low) != 0;
    return {0, x.high >> (by - 64) | (lost ? 1 : 0)};
  }
  if (by == 64) return {0, x.high | (x.low != 0 ? 1 : 0)};
  const bool lost = x.low << (64 - by) != 0;
  return {x.high >> by, x.high << (64 - by) | x.low >> by | (lost ? 1 : 0)};
}
VEERY_GPU Wide sum_of(Wide x, Wide y) {
  const uint64_t low = x.low + y.low;
  return {x.high + y.high + (low < x.low ? 1 : 0), low};
}
VEERY_GPU Wide difference_of(Wide x, Wide y) {
  return {x.high - y.high - (x.low < y.low ? 1 : 0), x.low - y.low};
}
/// Returns the product of two numbers below 2^53.
VEERY_GPU Wide product_of(uint64_t a, uint64_t b) {
  return {high_product(a << 11, b << 11) >> 22, a * b};
}

/// A number: a 126-bit mantissa whose leading bit is set, times 2^exponent.
struct Aligned {
  bool negative;
  int exponent;
  Wide mantissa;
};
VEERY_GPU Aligned aligned_to_126(bool negative, int exponent, Wide x) {
  const int by = leading_zeros(x) - 2;
  return {negative, exponent - by, shifted_up(x, by)};
}

VEERY_GPU Float64 fma(Float64 x, Float64 y, Float64 z) {
  const Parts64 a = parts_of(x), b = parts_of(y), c = parts_of(z);
  const bool finite = a.finite && b.finite && c.finite;
  // A product of 0 is exact, and so is a sum with 0.
  if (!finite || a.mantissa == 0 || b.mantissa == 0 || c.mantissa == 0) return x * y + z;
  Aligned large = aligned_to_126(a.negative != b.negative, a.exponent + b.exponent,
                                 product_of(a.mantissa, b.mantissa));
  Aligned small = aligned_to_126(c.negative, c.exponent, {0, c.mantissa});
  const bool other = large.exponent != small.exponent ? large.exponent < small.exponent
                     : large.mantissa.high != small.mantissa.high
                         ? large.mantissa.high < small.mantissa.high
                         : large.mantissa.low < small.mantissa.low;
  if (other) {
    const Aligned kept = large;
    large = small, small = kept;
  }
  const Wide moved = shifted_down(small.mantissa, large.exponent - small.exponent);
  Wide all = large.negative == small.negative ? sum_of(large.mantissa, moved)
                                              : difference_of(large.mantissa, moved);
  if ((all.high | all.low) == 0) return {0};
  const int by = leading_zeros(all);
  all = shifted_up(all, by);
  return rounded_f64(large.negative, large.exponent - by + 64, all.high | (all.low != 0 ? 1 : 0));
}

/// Returns the integer part of a number between 0 and 2^31.
VEERY_GPU int whole_part(Float64 x) {
  const Parts64 of = parts_of(x);
  return of.exponent <= -53 ? 0 : static_cast<int>(of.mantissa >> -of.exponent);
}

}  // namespace veery::gpu

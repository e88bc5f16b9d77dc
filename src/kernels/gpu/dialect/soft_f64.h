// soft_f64.h: f64 in whole numbers, for Metal, which has none: sums, products and quotients rounded
// to nearest even (IEEE 754), comparisons. Results below 2^-1022 are 0.
#pragma once

namespace veery::gpu {

struct Float64 {
  uint64_t bits;
};

/// A number in parts: `mantissa` times 2 to `exponent`, or what is no finite number.
struct Parts64 {
  bool negative, finite;
  int exponent;
  uint64_t mantissa;
};
VEERY_CONSTANT uint64_t kInfinite = uint64_t{0x7ff} << 52;
VEERY_CONSTANT uint64_t kNoNumber = uint64_t{0xfff} << 51;

VEERY_GPU Parts64 parts_of(Float64 x) {
  const int exponent = static_cast<int>(x.bits >> 52 & 0x7ff);
  const uint64_t fraction = x.bits & ((uint64_t{1} << 52) - 1);
  return {x.bits >> 63 != 0, exponent != 0x7ff, exponent - 1075,
          exponent == 0 ? 0 : fraction | uint64_t{1} << 52};
}
VEERY_GPU int leading_zeros(uint64_t x) {
  const auto high = static_cast<uint32_t>(x >> 32);
  return static_cast<int>(high != 0 ? clz(high) : 32 + clz(static_cast<uint32_t>(x)));
}
/// x / 2^shift to nearest even; `shift` from 1 to 63.
VEERY_GPU uint64_t shifted_to_even(uint64_t x, int shift) {
  const uint64_t middle = uint64_t{1} << (shift - 1), rest = x & (2 * middle - 1);
  const uint64_t y = x >> shift;
  return rest > middle || (rest == middle && (y & 1) != 0) ? y + 1 : y;
}
/// mantissa times 2 to exponent, whose last bit stands for all that is smaller.
VEERY_GPU Float64 rounded_f64(bool negative, int exponent, uint64_t mantissa) {
  const uint64_t sign = static_cast<uint64_t>(negative) << 63;
  if (mantissa == 0) return {sign};
  const int shift = leading_zeros(mantissa);
  uint64_t y = shifted_to_even(mantissa << shift, 11);
  int biased = exponent - shift + 1086;
  if (y >> 53 != 0) y >>= 1, ++biased;
  if (biased >= 0x7ff) return {sign | kInfinite};
  if (biased <= 0) return {sign};
  return {sign | static_cast<uint64_t>(biased) << 52 | (y & ((uint64_t{1} << 52) - 1))};
}

VEERY_GPU bool operator<(Float64 x, Float64 y) {
  const uint64_t own = x.bits << 1, other = y.bits << 1;
  if (own > kInfinite << 1 || other > kInfinite << 1 || (own | other) == 0) return false;
  const bool negative = x.bits >> 63 != 0;
  if (negative != (y.bits >> 63 != 0)) return negative;
  return negative ? other < own : own < other;
}
VEERY_GPU bool operator>(Float64 x, Float64 y) { return y < x; }

VEERY_GPU Float64 operator-(Float64 x) { return {x.bits ^ uint64_t{1} << 63}; }
VEERY_GPU Float64 operator+(Float64 x, Float64 y) {
  if ((x.bits << 1) < (y.bits << 1)) {
    const Float64 other = x;
    x = y, y = other;
  }
  const Parts64 a = parts_of(x), b = parts_of(y);
  if (!a.finite) {
    const bool number = (x.bits << 12) == 0 && (b.finite || a.negative == b.negative);
    return {number ? x.bits : kNoNumber};
  }
  const uint64_t large = a.mantissa << 10;
  uint64_t small = b.mantissa << 10;
  const int apart = a.exponent - b.exponent;
  if (apart >= 63) {
    small = small != 0 ? 1 : 0;
  } else if (apart > 0) {
    const bool rest = (small & ((uint64_t{1} << apart) - 1)) != 0;
    small = small >> apart | (rest ? 1 : 0);
  }
  if (a.negative == b.negative) return rounded_f64(a.negative, a.exponent - 10, large + small);
  const uint64_t left = large - small;
  return rounded_f64(left != 0 && a.negative, a.exponent - 10, left);
}
VEERY_GPU Float64 operator-(Float64 x, Float64 y) { return x + -y; }
VEERY_GPU Float64 operator*(Float64 x, Float64 y) {
  const Parts64 a = parts_of(x), b = parts_of(y);
  const bool negative = a.negative != b.negative;
  if (!a.finite || !b.finite) {
    const bool number = (a.finite || (x.bits << 12) == 0) && (b.finite || (y.bits << 12) == 0) &&
                        a.mantissa != 0 && b.mantissa != 0;
    return {number ? static_cast<uint64_t>(negative) << 63 | kInfinite : kNoNumber};
  }
  // 53 bits times 53: halves of 32 bits, the upper 64 of 128 and whether there is more.
  const uint64_t p = a.mantissa << 11, q = b.mantissa << 11, mask = 0xffffffffU;
  const uint64_t low = (p & mask) * (q & mask);
  const uint64_t one = (p >> 32) * (q & mask) + (low >> 32);
  const uint64_t two = (p & mask) * (q >> 32) + (one & mask);
  const uint64_t high = (p >> 32) * (q >> 32) + (one >> 32) + (two >> 32);
  const bool rest = ((low | two) & mask) != 0;
  return rounded_f64(negative, a.exponent + b.exponent - 22 + 64, high | (rest ? 1 : 0));
}
VEERY_GPU Float64 operator/(Float64 x, Float64 y) {
  const Parts64 a = parts_of(x), b = parts_of(y);
  const bool negative = a.negative != b.negative;
  const uint64_t sign = static_cast<uint64_t>(negative) << 63;
  const bool numbers = (a.finite || (x.bits << 12) == 0) && (b.finite || (y.bits << 12) == 0);
  if (!numbers || (!a.finite && !b.finite) || (a.mantissa == 0 && b.mantissa == 0))
    return {kNoNumber};
  if (!a.finite || b.mantissa == 0) return {sign | kInfinite};
  if (!b.finite || a.mantissa == 0) return {sign};
  // 60 bits of the quotient, one by one.
  uint64_t left = a.mantissa, quotient = 0;
  for (int i = 0; i < 60; ++i) {
    quotient <<= 1;
    if (left >= b.mantissa) left -= b.mantissa, quotient |= 1;
    left <<= 1;
  }
  return rounded_f64(negative, a.exponent - b.exponent - 59, quotient | (left != 0 ? 1 : 0));
}

VEERY_GPU Float64 double_of(int64_t bits) { return {static_cast<uint64_t>(bits)}; }
VEERY_GPU Float64 to_f64(int x) {
  return rounded_f64(x < 0, 0, static_cast<uint64_t>(x < 0 ? -int64_t{x} : int64_t{x}));
}
VEERY_GPU Float64 to_f64(float x) {
  const auto bits = static_cast<uint32_t>(bits_of(x));
  const auto exponent = static_cast<int>(bits >> 23 & 0xffU);
  const uint32_t fraction = bits & 0x7fffffU;
  if (exponent == 0xff)
    return {static_cast<uint64_t>(bits >> 31) << 63 | (fraction != 0 ? kNoNumber : kInfinite)};
  return rounded_f64(bits >> 31 != 0, (exponent == 0 ? 1 : exponent) - 150,
                     exponent == 0 ? fraction : fraction | 0x800000U);
}
VEERY_GPU float to_f32(Float64 x) {
  const Parts64 of = parts_of(x);
  const uint32_t sign = of.negative ? 0x80000000U : 0U;
  uint32_t bits = 0;
  if (!of.finite) {
    bits = (x.bits << 12) != 0 ? 0x7fc00000U : 0x7f800000U;
  } else if (of.mantissa != 0) {
    // 24 bits, fewer of subnormal numbers; what rounding carries over makes the exponent larger.
    const int biased = of.exponent + 1075 - 1023 + 127;
    const int shift = biased > 0 ? 29 : 30 - biased;
    if (biased >= 0xff)
      bits = 0x7f800000U;
    else if (shift < 63)
      bits = static_cast<uint32_t>(shifted_to_even(of.mantissa, shift)) +
             (biased > 0 ? static_cast<uint32_t>(biased - 1) << 23 : 0U);
  }
  return float_of(static_cast<int32_t>(sign | bits));
}

}  // namespace veery::gpu

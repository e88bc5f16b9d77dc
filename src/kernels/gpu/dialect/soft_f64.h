// soft_f64.h: f64 emulated in integer arithmetic, for Metal: sums, products and quotients rounded
// to nearest even (IEEE 754), and comparisons. Results below 2^-1022 become 0.
#pragma once

namespace veery::gpu {

struct Float64 {
  uint64_t bits;
};

/// The parts of an f64: mantissa times 2^exponent, or an infinity or NaN (not finite).
struct Parts64 {
  bool negative, finite;
  int exponent;
  uint64_t mantissa;
};
VEERY_CONSTANT uint64_t kInfinite = uint64_t{0x7ff} << 52;
VEERY_CONSTANT uint64_t kNoNumber = uint64_t{0xfff} << 51;
VEERY_CONSTANT uint64_t kSign64 = uint64_t{1} << 63;

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
/// Returns x / 2^shift rounded to nearest even; 1 <= shift <= 63.
VEERY_GPU uint64_t shifted_to_even(uint64_t x, int shift) {
  const uint64_t middle = uint64_t{1} << (shift - 1), rest = x & (2 * middle - 1);
  const uint64_t y = x >> shift;
  return rest > middle || (rest == middle && (y & 1) != 0) ? y + 1 : y;
}
/// Rounds a mantissa whose leading bit is bit 62 and packs it with the exponent. The last bit is
/// sticky: it stands for all lower bits.
VEERY_GPU Float64 packed_f64(uint64_t sign, int exponent, uint64_t mantissa) {
  if (exponent <= 0) return {sign};
  // Rounds to nearest even. The leading bit, or its carry, is added to the exponent.
  const uint64_t rounded = (mantissa + 0x1ff + (mantissa >> 10 & 1)) >> 10;
  const uint64_t bits = rounded + (static_cast<uint64_t>(exponent - 1) << 52);
  return {sign | (bits < kInfinite ? bits : kInfinite)};
}
/// Returns mantissa times 2^exponent, rounded; the last bit of the mantissa is sticky.
VEERY_GPU Float64 rounded_f64(bool negative, int exponent, uint64_t mantissa) {
  const uint64_t sign = negative ? kSign64 : 0;
  if (mantissa == 0) return {sign};
  const int zeros = leading_zeros(mantissa);
  return packed_f64(sign, exponent - zeros + 1086,
                    zeros == 0 ? mantissa >> 1 | (mantissa & 1) : mantissa << (zeros - 1));
}

VEERY_GPU bool operator<(Float64 x, Float64 y) {
  const uint64_t own = x.bits << 1, other = y.bits << 1;
  if (own > kInfinite << 1 || other > kInfinite << 1 || (own | other) == 0) return false;
  const bool negative = x.bits >> 63 != 0;
  if (negative != (y.bits >> 63 != 0)) return negative;
  return negative ? other < own : own < other;
}
VEERY_GPU bool operator>(Float64 x, Float64 y) { return y < x; }

VEERY_GPU Float64 operator-(Float64 x) { return {x.bits ^ kSign64}; }
VEERY_GPU Float64 operator+(Float64 x, Float64 y) {
  if ((x.bits << 1) < (y.bits << 1)) {
    const Float64 other = x;
    x = y, y = other;
  }
  const int own = static_cast<int>(static_cast<uint32_t>(x.bits >> 32) >> 20 & 0x7ffU);
  const int other = static_cast<int>(static_cast<uint32_t>(y.bits >> 32) >> 20 & 0x7ffU);
  const bool same = (x.bits ^ y.bits) >> 63 == 0;
  if (own == 0x7ff) {
    const bool number = (x.bits << 12) == 0 && (other != 0x7ff || same);
    return {number ? x.bits : kNoNumber};
  }
  if (other == 0) return {own != 0 ? x.bits : x.bits & y.bits & kSign64};
  // Operands with 10 extra bits below the mantissa; the last one is sticky.
  const uint64_t leading = uint64_t{1} << 62;
  const uint64_t large = (x.bits << 10 & (leading - 1)) | leading;
  const uint64_t small = (y.bits << 10 & (leading - 1)) | leading;
  const int apart = own - other < 63 ? own - other : 63;
  uint64_t moved = small >> apart;
  moved |= moved << apart != small ? 1 : 0;
  const uint64_t sign = x.bits & kSign64;
  if (same) {
    const uint64_t sum = large + moved;
    const bool carried = sum >> 63 != 0;
    return packed_f64(sign, own + (carried ? 1 : 0), carried ? sum >> 1 | (sum & 1) : sum);
  }
  const uint64_t left = large - moved;
  if (left == 0) return {0};
  const int lost = leading_zeros(left) - 1;
  return packed_f64(sign, own - lost, left << lost);
}
VEERY_GPU Float64 operator-(Float64 x, Float64 y) { return x + -y; }
VEERY_GPU Float64 operator*(Float64 x, Float64 y) {
  const Parts64 a = parts_of(x), b = parts_of(y);
  const uint64_t sign = (x.bits ^ y.bits) & kSign64;
  if (!a.finite || !b.finite) {
    const bool number = (a.finite || (x.bits << 12) == 0) && (b.finite || (y.bits << 12) == 0) &&
                        a.mantissa != 0 && b.mantissa != 0;
    return {number ? sign | kInfinite : kNoNumber};
  }
  if (a.mantissa == 0 || b.mantissa == 0) return {sign};
  // 53 x 53 bits by halves of 32 bits: the upper 64 of 128 bits, and a sticky bit.
  const uint64_t p = a.mantissa << 11, q = b.mantissa << 11, mask = 0xffffffffU;
  const uint64_t low = (p & mask) * (q & mask);
  const uint64_t one = (p >> 32) * (q & mask) + (low >> 32);
  const uint64_t two = (p & mask) * (q >> 32) + (one & mask);
  const uint64_t high = (p >> 32) * (q >> 32) + (one >> 32) + (two >> 32);
  const uint64_t all = high | (((low | two) & mask) != 0 ? 1 : 0);
  const bool carried = all >> 63 != 0;
  return packed_f64(sign, a.exponent + b.exponent + 1127 + (carried ? 1 : 0),
                    carried ? all >> 1 | (all & 1) : all);
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
  // Computes 60 bits of the quotient, one by one.
  uint64_t left = a.mantissa, quotient = 0;
  for (int i = 0; i < 60; ++i) {
    quotient <<= 1;
    if (left >= b.mantissa) left -= b.mantissa, quotient |= 1;
    left <<= 1;
  }
  return rounded_f64(negative, a.exponent - b.exponent - 59, quotient | (left != 0 ? 1 : 0));
}

VEERY_GPU int64_t float_to_bits(Float64 x) { return static_cast<int64_t>(x.bits); }
VEERY_GPU Float64 bits_to_double(int64_t bits) { return {static_cast<uint64_t>(bits)}; }
VEERY_GPU Float64 to_f64(int x) {
  return rounded_f64(x < 0, 0, static_cast<uint64_t>(x < 0 ? -int64_t{x} : int64_t{x}));
}
VEERY_GPU Float64 to_f64(float x) {
  const auto bits = static_cast<uint32_t>(float_to_bits(x));
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
    // Rounds to 24 bits, fewer for subnormal numbers. A carry increments the exponent.
    const int biased = of.exponent + 1075 - 1023 + 127;
    const int shift = biased > 0 ? 29 : 30 - biased;
    if (biased >= 0xff)
      bits = 0x7f800000U;
    else if (shift < 63)
      bits = static_cast<uint32_t>(shifted_to_even(of.mantissa, shift)) +
             (biased > 0 ? static_cast<uint32_t>(biased - 1) << 23 : 0U);
  }
  return bits_to_float(static_cast<int32_t>(sign | bits));
}

VEERY_GPU Float64 shuffle(Float64 x, int from) { return {shuffle(x.bits, from)}; }

}  // namespace veery::gpu

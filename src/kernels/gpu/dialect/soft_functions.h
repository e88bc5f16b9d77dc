// soft_functions.h: the functions of f64.h for Metal, in integer arithmetic. Square roots are
// rounded to nearest even; the other functions are within 4 units in the last place of f64.
#pragma once

namespace veery::gpu {

/// Returns the upper 64 bits of the product.
VEERY_GPU uint64_t high_product(uint64_t a, uint64_t b) {
  const uint64_t mask = 0xffffffffU;
  const uint64_t low = (a & mask) * (b & mask);
  const uint64_t one = (a >> 32) * (b & mask) + (low >> 32);
  const uint64_t two = (a & mask) * (b >> 32) + (one & mask);
  return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);
}

/// Returns a b, exactly: the product of two normal numbers has 47 or 48 bits.
VEERY_GPU Float64 product_f64(float a, float b) {
  const auto x = static_cast<uint32_t>(float_to_bits(a)),
             y = static_cast<uint32_t>(float_to_bits(b));
  const uint32_t of_x = x >> 23 & 0xffU, of_y = y >> 23 & 0xffU;
  if (of_x - 1 >= 0xfeU || of_y - 1 >= 0xfeU) return to_f64(a) * to_f64(b);
  const uint64_t p = uint64_t{(x & 0x7fffffU) | 0x800000U} * ((y & 0x7fffffU) | 0x800000U);
  const auto high = static_cast<uint32_t>(p >> 47);
  // p includes its leading bit, so the addition increments the exponent.
  return {(static_cast<uint64_t>((x ^ y) >> 31) << 63 | uint64_t{of_x + of_y + high + 768} << 52) +
          (p << (6 - high))};
}
/// `At`: a pointer to shared or to device memory.
template <typename At>
VEERY_GPU Float64 load_f64(At at) {
  return {at->bits};
}
template <typename At>
VEERY_GPU void store_f64(At at, Float64 x) {
  at->bits = x.bits;
}

/// Computes the root bit by bit.
VEERY_GPU Float64 square_root_f64(Float64 x) {
  const Parts64 of = parts_of(x);
  if (of.finite && of.mantissa == 0) return x;
  if (of.negative || (x.bits << 1) > (kInfinite << 1)) return {kNoNumber};
  if (!of.finite) return x;
  const bool odd = (of.exponent & 1) != 0;
  uint64_t next = of.mantissa << (odd ? 11 : 10);  // so that the exponent is even
  uint64_t root = 0, left = 0;
  for (int i = 0; i < 56; ++i) {
    left = left << 2 | next >> 62;
    next <<= 2;
    root <<= 1;
    const uint64_t more = root << 1 | 1;
    if (left >= more) left -= more, root |= 1;
  }
  return rounded_f64(false, (of.exponent - (odd ? 1 : 0)) / 2 - 30,
                     root << 1 | (left != 0 ? 1 : 0));
}

// 2^62 / 20! to 2^62 / 1!, the coefficients of exp_series().
VEERY_CONSTANT int kExpTerms = 20;
VEERY_CONSTANT uint64_t kFactorials[kExpTerms] = {0x2U,
                                                  0x26U,
                                                  0x2d0U,
                                                  0x32a6U,
                                                  0x35cfeU,
                                                  0x35cfe8U,
                                                  0x3272e95U,
                                                  0x2c248c27U,
                                                  0x23ddb1dffU,
                                                  0x1ae64567f5U,
                                                  0x127e4fb778aU,
                                                  0xb8ef1d2ab64U,
                                                  0x680680680680U,
                                                  0x3403403403403U,
                                                  0x16c16c16c16c17U,
                                                  0x88888888888889U,
                                                  0x2aaaaaaaaaaaaabU,
                                                  0xaaaaaaaaaaaaaabU,
                                                  0x2000000000000000U,
                                                  0x4000000000000000U};
/// Returns (e^x - 1) / x in units of 2^-62, for x in units of 2^-64.
VEERY_GPU uint64_t exp_series(uint64_t x) {
  uint64_t sum = kFactorials[0];
  for (int i = 1; i < kExpTerms; ++i) sum = high_product(sum, x) + kFactorials[i];
  return sum;
}
/// Returns the fraction of a number between 0 and 2^11, in units of 2^-64.
VEERY_GPU uint64_t fraction_of(Float64 x) {
  const Parts64 of = parts_of(x);
  const int shift = of.exponent + 64;
  return shift >= 0 ? of.mantissa << shift : shift > -64 ? of.mantissa >> -shift : 0;
}

VEERY_GPU Float64 exp_f64(Float64 x) {
  if ((x.bits << 1) > (kInfinite << 1)) return x;
  if (x > bits_to_double(0x4086300000000000)) return {kInfinite};                 // 710
  if (x < bits_to_double(static_cast<int64_t>(0xc086300000000000U))) return {0};  // below 2^-1022
  // r = x - n ln 2 >= 0, modulo 1, with a 128-bit ln 2.
  const uint64_t ln2 = 0xb17217f7d1cf79abU, less = 0xc9e3b39803f2f6afU;
  int n = round_to_int(to_f32(x) * 1.44269504F - 0.5F);
  const bool negative = x.bits >> 63 != 0;
  const uint64_t fraction = fraction_of(negative ? -x : x);
  const auto times = static_cast<uint64_t>(n < 0 ? -n : n);
  const uint64_t subtracted = times * ln2 + high_product(times, less);
  uint64_t r = (negative ? 0 - fraction : fraction) - (n < 0 ? 0 - subtracted : subtracted);
  if (r >> 62 == 3) r += ln2, --n;  // slightly below 0
  return rounded_f64(false, n - 62, (uint64_t{1} << 62) + high_product(exp_series(r), r));
}
VEERY_GPU Float64 tanh_f64(Float64 x) {
  const uint64_t sign = x.bits & uint64_t{1} << 63;
  const Float64 twice = to_f64(2) * Float64{x.bits ^ sign};
  if (!(twice < bits_to_double(0x4044000000000000))) {  // 40
    if ((x.bits << 1) > (kInfinite << 1)) return x;
    return {sign | to_f64(1).bits};
  }
  // e^twice - 1
  const Float64 above = twice < bits_to_double(0x3fe0000000000000)
                            ? twice * rounded_f64(false, -62, exp_series(fraction_of(twice)))
                            : exp_f64(twice) - to_f64(1);
  return {sign | (above / (above + to_f64(2))).bits};
}
/// Returns ln(1 + x) for 0 <= x <= 1, computed as 2 atanh(x / (2 + x)).
VEERY_GPU Float64 log1p_f64(Float64 x) {
  const Float64 s = x / (to_f64(2) + x);
  const uint64_t square = fraction_of(s * s);
  constexpr int kTerms = 20;
  const uint64_t one = uint64_t{1} << 62;
  uint64_t sum = one / (2 * kTerms + 1);
  VEERY_UNROLL(20)
  for (int i = kTerms - 1; i >= 0; --i)
    sum = high_product(sum, square) + one / static_cast<uint64_t>(2 * i + 1);
  return to_f64(2) * s * rounded_f64(false, -62, sum);
}
/// Returns ln(x) for a finite x >= 1.
VEERY_GPU Float64 log_f64(Float64 x) {
  const auto exponent = static_cast<int32_t>(x.bits >> 52) - 1023;
  const Float64 ln2 = bits_to_double(0x3fe62e42fefa39ef);
  const Float64 mantissa = {(x.bits & 0xfffffffffffff) | to_f64(1).bits};
  return to_f64(exponent) * ln2 + log1p_f64(mantissa - to_f64(1));
}

}  // namespace veery::gpu

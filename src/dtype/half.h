// half.h: conversions between f32 and the 16-bit float formats; plain C++14, shared with kernels.
#pragma once
#include <cstdint>
#include <cstring>

namespace veery {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Converts IEEE 754 binary16 to binary32: exact; a NaN keeps its payload.
inline float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1FU;
  const uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude =
        static_cast<float>(static_cast<int32_t>(fraction)) * 5.9604644775390625e-8F;
    return float_of_bits(bits_of_float(magnitude) | sign);
  }
  const uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + 112;
  return float_of_bits(sign | wide << 23 | fraction << 13);
}

/// Rounds to nearest even. Magnitudes from 65520 on become infinite; NaN stays NaN.
inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U)
    return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x1FFU));
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x33000000U) return static_cast<uint16_t>(sign);
  const uint32_t exponent = magnitude >> 23;
  uint32_t wide;  // the significand before rounding, with `drop` extra bits at the bottom
  uint32_t drop;
  if (exponent >= 113) {
    wide = magnitude - (112U << 23);
    drop = 13;
  } else {
    wide = (magnitude & 0x7FFFFFU) | 0x800000U;
    drop = 126 - exponent;
  }
  const uint32_t half = 1U << (drop - 1);
  const uint32_t rest = wide & ((1U << drop) - 1);
  uint32_t result = wide >> drop;
  if (rest > half || (rest == half && (result & 1U) != 0)) ++result;
  return static_cast<uint16_t>(sign | result);
}

inline float bf16_to_f32(uint16_t bits) { return float_of_bits(static_cast<uint32_t>(bits) << 16); }

/// Rounds to nearest even; NaN stays NaN.
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = bits_of_float(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace veery

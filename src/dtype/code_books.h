// code_books.h: blocks whose codes index a table of values: the tables, and a common unpacked form
// for all such blocks of 256; plain C++, shared with kernels.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "dtype/blocks.h"
#include "dtype/dtype.h"
#include "dtype/grids.h"
#include "dtype/half.h"

namespace veery {

/// The value table of a type. An element of a block of 256 is d * factor * scale * values[code],
/// with one scale for each `sub` elements (0: no scales). All products of d with the other three
/// fit in 24 bits, so the order of multiplication does not matter.
struct CodeBook {
  int bits = 0;  ///< bits of a code; 0: the type has no code book
  int sub = 0;
  float factor = 1;
  int8_t values[16] = {};
};

constexpr CodeBook code_book(DType type) {
  switch (type) {
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return {4, 32, 1, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
    case DType::kMXFP4:
    case DType::kNVFP4:
      return {4, 32, 1, {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};
    case DType::kIQ2_XXS: return {3, 32, 0.125F, {-43, -25, -8, 8, 25, 43}};
    case DType::kIQ2_XS:
    case DType::kIQ2_S: return {3, 16, 0.125F, {-43, -25, -8, 8, 25, 43}};
    case DType::kIQ3_XXS:
      return {4, 32, 0.25F, {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62}};
    case DType::kIQ3_S:
      return {4, 32, 1, {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}};
    case DType::kIQ1_S: return {3, 32, 0.125F, {-9, -7, -1, 1, 7, 9}};
    case DType::kIQ1_M: return {3, 16, 0.125F, {-9, -7, -1, 1, 7, 9}};
    case DType::kTQ1_0:
    case DType::kTQ2_0: return {2, 0, 1, {-1, 0, 1, 2}};
    default: return {};
  }
}

/// Returns 2^(e - 128), half of the E8M0 scale, because the values of MXFP4 are stored doubled.
inline float half_e8m0_to_f32(uint8_t e) {
  return float_of_bits(e < 2 ? 0x00200000U << e : (e - 1U) << 23);
}
/// Half of the factor that corrects the exponent bias when E4M3 bits are placed in an f32.
inline constexpr float kHalfE4M3 = 0x1p119F;
/// Returns half of an unsigned float with a 4-bit exponent (bias 7) and a 3-bit fraction. 0x7F
/// decodes to 0; otherwise the top bit is ignored.
inline float half_e4m3_to_f32(uint8_t x) {
  return x == 0x7F ? 0.0F : float_of_bits((x & 0x7FU) << 20) * kHalfE4M3;
}

/// The unpacked form of a block of 256: a scale for each 16 elements, values instead of codes.
struct CodedBlock {
  uint16_t d = 0;  ///< f16 bits
  int8_t scales[16] = {};
  int8_t values[256] = {};
};

/// Completes 7 stored sign bits to 8, so that the number of minus signs is even.
constexpr uint32_t eight_signs(uint32_t seven) {
  return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7;
}
inline void signed_point(const uint8_t* point, int elements, uint32_t signs, int8_t* out) {
  for (int i = 0; i < elements; ++i)
    out[i] = static_cast<int8_t>((signs >> i & 1) != 0 ? -point[i] : point[i]);
}
/// Unpacks sixteen 4-bit scales s as 2 s + 1.
inline void odd_scales(const uint8_t* packed, int8_t* out) {
  for (int j = 0; j < 16; ++j)
    out[j] = static_cast<int8_t>(2 * (packed[j / 2] >> (j % 2 * 4) & 15) + 1);
}

inline void unpack_block(const BlockIQ4_XS& b, CodedBlock& out) {
  constexpr CodeBook kBook = code_book(DType::kIQ4_XS);
  out.d = b.d;
  for (int j = 0; j < 8; ++j) {
    const int low = b.scales_l[j / 2] >> (j % 2 * 4) & 15;
    const int high = b.scales_h >> (2 * j) & 3;
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int8_t>((low | high << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      const uint8_t pair = b.qs[16 * j + i];
      out.values[32 * j + i] = kBook.values[pair & 15];
      out.values[32 * j + 16 + i] = kBook.values[pair >> 4];
    }
  }
}

inline void unpack_block(const BlockIQ2_XXS& b, CodedBlock& out) {
  out.d = b.d;
  for (int j = 0; j < 8; ++j) {
    uint8_t index[4];
    uint32_t signs;
    std::memcpy(index, b.qs + 4 * j, 4);
    std::memcpy(&signs, b.qs + 4 * j + 2, 4);
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int8_t>(2 * (signs >> 28) + 1);
    for (int i = 0; i < 4; ++i)
      signed_point(kGridIQ2_XXS[index[i]].data(), 8, eight_signs(signs >> (7 * i) & 127),
                   out.values + 32 * j + 8 * i);
  }
}

inline void unpack_block(const BlockIQ2_XS& b, CodedBlock& out) {
  out.d = b.d;
  odd_scales(b.scales, out.scales);
  for (int i = 0; i < 32; ++i)
    signed_point(kGridIQ2_XS[b.qs[i] & 511].data(), 8, eight_signs(b.qs[i] >> 9),
                 out.values + 8 * i);
}

inline void unpack_block(const BlockIQ2_S& b, CodedBlock& out) {
  out.d = b.d;
  odd_scales(b.scales, out.scales);
  for (int i = 0; i < 32; ++i) {
    const int index = b.qs[i] | (b.qh[i / 4] >> (i % 4 * 2) & 3) << 8;
    signed_point(kGridIQ2_S[static_cast<size_t>(index)].data(), 8, b.signs[i], out.values + 8 * i);
  }
}

inline void unpack_block(const BlockIQ3_XXS& b, CodedBlock& out) {
  out.d = b.d;
  for (int j = 0; j < 8; ++j) {
    uint32_t signs;
    std::memcpy(&signs, b.signs + 4 * j, 4);
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int8_t>(2 * (signs >> 28) + 1);
    for (int i = 0; i < 8; ++i)
      signed_point(kGridIQ3_XXS[b.qs[8 * j + i]].data(), 4,
                   eight_signs(signs >> (7 * (i / 2)) & 127) >> (i % 2 * 4),
                   out.values + 32 * j + 4 * i);
  }
}

inline void unpack_block(const BlockIQ3_S& b, CodedBlock& out) {
  out.d = b.d;
  for (int j = 0; j < 8; ++j)
    out.scales[2 * j] = out.scales[2 * j + 1] =
        static_cast<int8_t>(2 * (b.scales[j / 2] >> (j % 2 * 4) & 15) + 1);
  for (int i = 0; i < 64; ++i) {
    const int index = b.qs[i] | (b.qh[i / 8] >> (i % 8) & 1) << 8;
    signed_point(kGridIQ3_S[static_cast<size_t>(index)].data(), 4,
                 static_cast<uint32_t>(b.signs[i / 2]) >> (i % 2 * 4), out.values + 4 * i);
  }
}

/// Returns 8 * point + 1, or - 1 if `minus`, for a point of -1, 0 and 1.
inline void shifted_point(int index, bool minus, int8_t* out) {
  const auto& point = kGridIQ1[static_cast<size_t>(index)];
  for (size_t i = 0; i < 8; ++i)
    out[i] = static_cast<int8_t>(8 * (point[i] - 1) + (minus ? -1 : 1));
}

inline void unpack_block(const BlockIQ1_S& b, CodedBlock& out) {
  out.d = b.d;
  for (int j = 0; j < 8; ++j) {
    const uint16_t high = b.qh[j];
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int8_t>(2 * (high >> 12 & 7) + 1);
    for (int i = 0; i < 4; ++i)
      shifted_point(b.qs[4 * j + i] | (high >> (3 * i) & 7) << 8, (high & 0x8000U) != 0,
                    out.values + 32 * j + 8 * i);
  }
}

/// Returns the f16 bits of d, which IQ1_M stores in four quarters in the top bits of `scales`.
inline uint16_t scale_iq1_m(const BlockIQ1_M& b) {
  return static_cast<uint16_t>(b.scales[1] >> 4 | b.scales[3] >> 4 << 4 | b.scales[5] >> 4 << 8 |
                               b.scales[7] >> 4 << 12);
}

inline void unpack_block(const BlockIQ1_M& b, CodedBlock& out) {
  out.d = scale_iq1_m(b);
  for (int j = 0; j < 16; ++j) {
    const int word = b.scales[j / 4 * 2] | b.scales[j / 4 * 2 + 1] << 8;
    out.scales[j] = static_cast<int8_t>(2 * (word >> (j % 4 * 3) & 7) + 1);
  }
  for (int i = 0; i < 32; ++i) {
    const int high = b.qh[i / 2] >> (i % 2 * 4) & 15;
    shifted_point(b.qs[i] | (high & 7) << 8, (high & 8) != 0, out.values + 8 * i);
  }
}

inline int8_t ternary_digit(uint8_t byte, int digit) {
  constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  return static_cast<int8_t>((static_cast<uint8_t>(byte * kPowers[digit]) * 3 >> 8) - 1);
}

inline void unpack_block(const BlockTQ1_0& b, CodedBlock& out) {
  out.d = b.d;
  std::memset(out.scales, 1, sizeof out.scales);
  for (int k = 0; k < 5; ++k) {
    for (int i = 0; i < 32; ++i) out.values[32 * k + i] = ternary_digit(b.qs[i], k);
    for (int i = 0; i < 16; ++i) out.values[160 + 16 * k + i] = ternary_digit(b.qs[32 + i], k);
    for (int i = 0; i < 4 && k < 4; ++i) out.values[240 + 4 * k + i] = ternary_digit(b.qh[i], k);
  }
}

inline void unpack_block(const BlockTQ2_0& b, CodedBlock& out) {
  out.d = b.d;
  std::memset(out.scales, 1, sizeof out.scales);
  for (int i = 0; i < 256; ++i) {
    const int code = b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out.values[i] = static_cast<int8_t>(code - 1);
  }
}

inline void decode_coded(const CodedBlock& b, float factor, float* y) {
  const float d = f16_to_f32(b.d) * factor;
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(b.scales[j]);
    for (int i = 16 * j; i < 16 * j + 16; ++i) y[i] = scale * static_cast<float>(b.values[i]);
  }
}

inline void decode_block(const BlockIQ4_NL& b, float* y) {
  constexpr CodeBook kBook = code_book(DType::kIQ4_NL);
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i)
    y[i] = d * static_cast<float>(kBook.values[b.qs[i % 16] >> (i / 16 * 4) & 15]);
}
inline void decode_block(const BlockMXFP4& b, float* y) {
  constexpr CodeBook kBook = code_book(DType::kMXFP4);
  const float d = half_e8m0_to_f32(b.e);
  for (int i = 0; i < 32; ++i)
    y[i] = d * static_cast<float>(kBook.values[b.qs[i % 16] >> (i / 16 * 4) & 15]);
}
inline void decode_block(const BlockNVFP4& b, float* y) {
  constexpr CodeBook kBook = code_book(DType::kNVFP4);
  for (int i = 0; i < 64; ++i) {
    const int code = b.qs[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15;
    y[i] = half_e4m3_to_f32(b.d[i / 16]) * static_cast<float>(kBook.values[code]);
  }
}

}  // namespace veery

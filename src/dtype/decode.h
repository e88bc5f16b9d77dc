// decode.h: the decode formula of each block type, one block at a time; plain C++14, shared with
// kernels.
#pragma once
#include <cstdint>

#include "dtype/blocks.h"
#include "dtype/half.h"

namespace veery {

// Each decode_block(b, y) writes all elements of `b` as f32. The order of the operations is part of
// the contract: (d * scale) first, then * q, then minus (dmin * min), each rounded to f32, never
// fused.

/// Unpacks the 4-bit codes of a block of 32: codes[i], unsigned.
inline void unpack_nibbles(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = qs[i] & 0x0FU;
    codes[i + 16] = qs[i] >> 4;
  }
}

/// As above, with the fifth bit of each code from qh.
inline void unpack_5bit(const uint8_t* qs, const uint8_t* qh, uint8_t* codes) {
  unpack_nibbles(qs, codes);
  for (int i = 0; i < 32; ++i)
    codes[i] = static_cast<uint8_t>(codes[i] | ((qh[i / 8] >> (i % 8)) & 1U) << 4);
}

/// Unpacks the 6-bit scale and min of sub-block j (0 to 7) of a Q4_K or Q5_K block. Those of the
/// first four sub-blocks have their own bytes, whose top two bits hold the upper bits of the last
/// four.
inline void scale_min_6bit(const uint8_t* packed, int j, uint8_t* scale, uint8_t* min) {
  if (j < 4) {
    *scale = packed[j] & 63U;
    *min = packed[j + 4] & 63U;
  } else {
    *scale = static_cast<uint8_t>((packed[j + 4] & 0x0FU) | (packed[j - 4] >> 6) << 4);
    *min = static_cast<uint8_t>((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
  }
}

/// Returns the signed scale (-32 to 31) of sub-block j (0 to 15) of a Q3_K block.
inline int scale_q3_k(const uint8_t* packed, int j) {
  const int low = (packed[j % 8] >> (j < 8 ? 0 : 4)) & 0x0F;
  const int high = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
  return (low | high << 4) - 32;
}

inline int code_q2_k(const BlockQ2_K& b, int i) {
  return (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

/// Returns a code in [-4, 3].
inline int code_q3_k(const BlockQ3_K& b, int i) {
  const int low = (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
  return low - ((b.hmask[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4);
}

inline int code_q4_k(const BlockQ4_K& b, int i) {
  return (b.qs[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4)) & 0x0F;
}

inline int code_q5_k(const BlockQ5_K& b, int i) {
  const int low = (b.qs[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4)) & 0x0F;
  return low | (b.qh[i % 32] >> (i / 32) & 1) << 4;
}

/// Returns a code in [-32, 31].
inline int code_q6_k(const BlockQ6_K& b, int i) {
  const int half = i / 128;
  const int strip = i % 128 / 32;
  const int low = (b.ql[half * 64 + strip % 2 * 32 + i % 32] >> (strip < 2 ? 0 : 4)) & 0x0F;
  const int high = (b.qh[half * 32 + i % 32] >> (2 * strip)) & 3;
  return (low | high << 4) - 32;
}

inline void decode_block(const BlockQ2_0& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 64; ++i)
    y[i] = d * static_cast<float>((b.qs[i / 4] >> (2 * (i % 4)) & 3) - 1);
}

inline void decode_block(const BlockQ4_0& b, float* y) {
  const float d = f16_to_f32(b.d);
  uint8_t codes[32];
  unpack_nibbles(b.qs, codes);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(codes[i] - 8);
}

inline void decode_block(const BlockQ4_1& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float m = f16_to_f32(b.m);
  uint8_t codes[32];
  unpack_nibbles(b.qs, codes);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(codes[i]) + m;
}

inline void decode_block(const BlockQ5_0& b, float* y) {
  const float d = f16_to_f32(b.d);
  uint8_t codes[32];
  unpack_5bit(b.qs, b.qh, codes);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(codes[i] - 16);
}

inline void decode_block(const BlockQ5_1& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float m = f16_to_f32(b.m);
  uint8_t codes[32];
  unpack_5bit(b.qs, b.qh, codes);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(codes[i]) + m;
}

inline void decode_block(const BlockQ8_0& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(b.qs[i]);
}

inline void decode_block(const BlockQ8_1& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(b.qs[i]);
}

inline void decode_block(const BlockQ2_K& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(b.scales[j] & 0x0F);
    const float min = dmin * static_cast<float>(b.scales[j] >> 4);
    for (int i = 16 * j; i < 16 * j + 16; ++i)
      y[i] = scale * static_cast<float>(code_q2_k(b, i)) - min;
  }
}

inline void decode_block(const BlockQ3_K& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(scale_q3_k(b.scales, j));
    for (int i = 16 * j; i < 16 * j + 16; ++i) y[i] = scale * static_cast<float>(code_q3_k(b, i));
  }
}

inline void decode_block(const BlockQ4_K& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int j = 0; j < 8; ++j) {
    uint8_t s;
    uint8_t m;
    scale_min_6bit(b.scales, j, &s, &m);
    const float scale = d * static_cast<float>(s);
    const float min = dmin * static_cast<float>(m);
    for (int i = 32 * j; i < 32 * j + 32; ++i)
      y[i] = scale * static_cast<float>(code_q4_k(b, i)) - min;
  }
}

inline void decode_block(const BlockQ5_K& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int j = 0; j < 8; ++j) {
    uint8_t s;
    uint8_t m;
    scale_min_6bit(b.scales, j, &s, &m);
    const float scale = d * static_cast<float>(s);
    const float min = dmin * static_cast<float>(m);
    for (int i = 32 * j; i < 32 * j + 32; ++i)
      y[i] = scale * static_cast<float>(code_q5_k(b, i)) - min;
  }
}

inline void decode_block(const BlockQ6_K& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(b.scales[j]);
    for (int i = 16 * j; i < 16 * j + 16; ++i) y[i] = scale * static_cast<float>(code_q6_k(b, i));
  }
}

inline void decode_block(const BlockQ8_K& b, float* y) {
  for (int i = 0; i < 256; ++i) y[i] = b.d * static_cast<float>(b.qs[i]);
}

}  // namespace veery

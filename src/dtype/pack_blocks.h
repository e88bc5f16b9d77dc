// pack_blocks.h: packs fitted codes and scales into blocks; the inverse of decode.h and
// code_books.h.
#pragma once
#include <cstring>

#include "dtype/blocks.h"
#include "dtype/code_range.h"
#include "dtype/grid_format.h"
#include "dtype/half.h"

namespace veery {

inline void pack_nibbles(const int8_t* codes, uint8_t* qs) {
  for (int i = 0; i < 16; ++i)
    qs[i] = static_cast<uint8_t>((codes[i] & 0x0F) | (codes[i + 16] & 0x0F) << 4);
}

/// Packs bit 4 of the codes, eight codes to a byte.
inline void pack_fifth_bits(const int8_t* codes, uint8_t* qh) {
  for (int i = 0; i < 4; ++i) {
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * i, sizeof eight);
    // Byte k has its bit at the bottom; the multiplication gathers that of byte k at bit 56 + k.
    qh[i] = static_cast<uint8_t>((eight >> 4 & 0x0101010101010101U) * 0x0102040810204080U >> 56);
  }
}

// Blocks of 32. Codes start at 0, except those of Q8_0, which are signed.

inline void pack(float d, float, const int8_t* codes, BlockQ4_0& b) {
  b.d = f32_to_f16(d);
  pack_nibbles(codes, b.qs);
}
inline void pack(float d, float m, const int8_t* codes, BlockQ4_1& b) {
  b.d = f32_to_f16(d);
  b.m = f32_to_f16(m);
  pack_nibbles(codes, b.qs);
}
inline void pack(float d, float, const int8_t* codes, BlockQ5_0& b) {
  b.d = f32_to_f16(d);
  pack_nibbles(codes, b.qs);
  pack_fifth_bits(codes, b.qh);
}
inline void pack(float d, float m, const int8_t* codes, BlockQ5_1& b) {
  b.d = f32_to_f16(d);
  b.m = f32_to_f16(m);
  pack_nibbles(codes, b.qs);
  pack_fifth_bits(codes, b.qh);
}
inline void pack(float d, float, const int8_t* codes, BlockQ8_0& b) {
  b.d = f32_to_f16(d);
  std::memcpy(b.qs, codes, sizeof b.qs);
}
inline void pack(float d, float, const int8_t* codes, BlockIQ4_NL& b) {
  b.d = f32_to_f16(d);
  pack_nibbles(codes, b.qs);
}

/// Packs 2-bit codes: element 128 h + 32 s + i in bits 2 s and 2 s + 1 of qs[32 h + i].
inline void pack_2bit(const int8_t* codes, uint8_t* qs) {
  std::memset(qs, 0, 64);
  for (int i = 0; i < 256; ++i) {
    uint8_t& byte = qs[i / 128 * 32 + i % 32];
    byte = static_cast<uint8_t>(byte | (codes[i] & 3) << (i % 128 / 32 * 2));
  }
}

/// Packs the low nibbles of Q4_K and Q5_K: element 64 c + i in the low nibble of qs[32 c + i], 64 c
/// + 32 + i in the high one.
inline void pack_4bit(const int8_t* codes, uint8_t* qs) {
  for (int i = 0; i < 128; ++i) {
    const int8_t* pair = codes + i / 32 * 64 + i % 32;
    qs[i] = static_cast<uint8_t>((pair[0] & 0x0F) | (pair[32] & 0x0F) << 4);
  }
}

/// The inverse of scale_min_6bit.
inline void pack_6bit_scales(const SuperBlock& super, uint8_t* packed) {
  std::memset(packed, 0, 12);
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(super.scales[j] | (super.scales[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(super.mins[j] | (super.mins[j + 4] >> 4) << 6);
    packed[j + 8] =
        static_cast<uint8_t>((super.scales[j + 4] & 0x0F) | (super.mins[j + 4] & 0x0F) << 4);
  }
}

inline void pack(const SuperBlock& super, BlockQ2_K& b) {
  for (int j = 0; j < 16; ++j)
    b.scales[j] = static_cast<uint8_t>(super.scales[j] | super.mins[j] << 4);
  pack_2bit(super.codes, b.qs);
  b.d = f32_to_f16(super.d);
  b.dmin = f32_to_f16(super.dmin);
}

inline void pack(const SuperBlock& super, BlockQ3_K& b) {
  std::memset(&b, 0, sizeof b);
  for (int j = 0; j < 16; ++j) {
    const int scale = super.scales[j] + 32;
    b.scales[j % 8] = static_cast<uint8_t>(b.scales[j % 8] | (scale & 0x0F) << (j < 8 ? 0 : 4));
    b.scales[8 + j % 4] = static_cast<uint8_t>(b.scales[8 + j % 4] | (scale >> 4) << (2 * (j / 4)));
  }
  pack_2bit(super.codes, b.qs);  // codes -4 and 0 have the same low bits
  for (int i = 0; i < 256; ++i)
    if (super.codes[i] >= 0)
      b.hmask[i % 32] = static_cast<uint8_t>(b.hmask[i % 32] | 1U << (i / 32));
  b.d = f32_to_f16(super.d);
}

inline void pack(const SuperBlock& super, BlockQ4_K& b) {
  pack_6bit_scales(super, b.scales);
  pack_4bit(super.codes, b.qs);
  b.d = f32_to_f16(super.d);
  b.dmin = f32_to_f16(super.dmin);
}

inline void pack(const SuperBlock& super, BlockQ5_K& b) {
  pack_6bit_scales(super, b.scales);
  pack_4bit(super.codes, b.qs);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 256; ++i)
    b.qh[i % 32] = static_cast<uint8_t>(b.qh[i % 32] | ((super.codes[i] >> 4) & 1) << (i / 32));
  b.d = f32_to_f16(super.d);
  b.dmin = f32_to_f16(super.dmin);
}

inline void pack(const SuperBlock& super, BlockQ6_K& b) {
  std::memset(&b, 0, sizeof b);
  for (int i = 0; i < 256; ++i) {
    const int code = super.codes[i] + 32;
    const int half = i / 128;
    const int strip = i % 128 / 32;
    uint8_t& low = b.ql[half * 64 + strip % 2 * 32 + i % 32];
    uint8_t& high = b.qh[half * 32 + i % 32];
    low = static_cast<uint8_t>(low | (code & 0x0F) << (strip < 2 ? 0 : 4));
    high = static_cast<uint8_t>(high | (code >> 4) << (2 * strip));
  }
  for (int j = 0; j < 16; ++j) b.scales[j] = static_cast<int8_t>(super.scales[j]);
  b.d = f32_to_f16(super.d);
}

inline void pack(const SuperBlock& super, BlockIQ4_XS& b) {
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(super.d);
  for (int j = 0; j < 8; ++j) {
    const int scale = super.scales[j] + 32;
    b.scales_l[j / 2] = static_cast<uint8_t>(b.scales_l[j / 2] | (scale & 15) << (j % 2 * 4));
    b.scales_h = static_cast<uint16_t>(b.scales_h | scale >> 4 << (2 * j));
    pack_nibbles(super.codes + 32 * j, b.qs + 16 * j);
  }
}

/// Packs codes -1, 0 and 1.
inline void pack(float d, const int8_t* codes, BlockTQ1_0& b) {
  b.d = f32_to_f16(d);
  // Encodes five digits, `step` apart from `at` on, as a fraction of 3^5 in units of 1/256, rounded
  // up.
  const auto digits = [&](int at, int step, int count) {
    int number = 0;
    for (int k = 0; k < 5; ++k) number = 3 * number + (k < count ? codes[at + step * k] + 1 : 0);
    return static_cast<uint8_t>((number * 256 + 242) / 243);
  };
  for (int i = 0; i < 32; ++i) b.qs[i] = digits(i, 32, 5);
  for (int i = 0; i < 16; ++i) b.qs[32 + i] = digits(160 + i, 16, 5);
  for (int i = 0; i < 4; ++i) b.qh[i] = digits(240 + i, 4, 4);
}

inline void pack(float d, const int8_t* codes, BlockTQ2_0& b) {
  b.d = f32_to_f16(d);
  int8_t shifted[256];
  for (int i = 0; i < 256; ++i) shifted[i] = static_cast<int8_t>(codes[i] + 1);
  pack_2bit(shifted, b.qs);
}

/// Packs codes -1 to 2.
inline void pack(float d, const int8_t* codes, BlockQ2_0& b) {
  b.d = f32_to_f16(d);
  for (int i = 0; i < 16; ++i) {
    b.qs[i] = 0;
    for (int k = 0; k < 4; ++k)
      b.qs[i] = static_cast<uint8_t>(b.qs[i] | (codes[4 * i + k] + 1) << (2 * k));
  }
}

/// Packs 7 signs of each of four groups of 8, and the scale in the top 4 bits.
inline uint32_t signs_and_scale(const GridBlock& grid, int j) {
  uint32_t bits = static_cast<uint32_t>(grid.scales[j]) << 28;
  for (int i = 0; i < 4; ++i) bits |= (grid.signs[4 * j + i] & 127U) << (7 * i);
  return bits;
}
inline void pack_scales(const GridBlock& grid, int count, uint8_t* packed) {
  for (int j = 0; j < count; j += 2)
    packed[j / 2] = static_cast<uint8_t>(grid.scales[j] | grid.scales[j + 1] << 4);
}

inline void pack(const GridBlock& grid, BlockIQ2_XXS& b) {
  b.d = f32_to_f16(grid.d);
  for (int j = 0; j < 8; ++j) {
    const uint32_t bits = signs_and_scale(grid, j);
    uint8_t points[4];
    for (int i = 0; i < 4; ++i) points[i] = static_cast<uint8_t>(grid.points[4 * j + i]);
    std::memcpy(b.qs + 4 * j, points, 4);
    std::memcpy(b.qs + 4 * j + 2, &bits, 4);
  }
}

inline void pack(const GridBlock& grid, BlockIQ2_XS& b) {
  b.d = f32_to_f16(grid.d);
  for (int i = 0; i < 32; ++i)
    b.qs[i] = static_cast<uint16_t>(grid.points[i] | (grid.signs[i] & 127) << 9);
  pack_scales(grid, 16, b.scales);
}

inline void pack(const GridBlock& grid, BlockIQ2_S& b) {
  b.d = f32_to_f16(grid.d);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 32; ++i) {
    b.qs[i] = static_cast<uint8_t>(grid.points[i]);
    b.qh[i / 4] = static_cast<uint8_t>(b.qh[i / 4] | grid.points[i] >> 8 << (i % 4 * 2));
    b.signs[i] = grid.signs[i];
  }
  pack_scales(grid, 16, b.scales);
}

inline void pack(const GridBlock& grid, BlockIQ3_XXS& b) {
  b.d = f32_to_f16(grid.d);
  for (int i = 0; i < 64; ++i) b.qs[i] = static_cast<uint8_t>(grid.points[i]);
  for (int j = 0; j < 8; ++j) {
    const uint32_t bits = signs_and_scale(grid, j);
    std::memcpy(b.signs + 4 * j, &bits, 4);
  }
}

inline void pack(const GridBlock& grid, BlockIQ3_S& b) {
  b.d = f32_to_f16(grid.d);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 64; ++i) {
    b.qs[i] = static_cast<uint8_t>(grid.points[i]);
    b.qh[i / 8] = static_cast<uint8_t>(b.qh[i / 8] | grid.points[i] >> 8 << (i % 8));
  }
  std::memcpy(b.signs, grid.signs, sizeof b.signs);
  pack_scales(grid, 8, b.scales);
}

inline void pack(const GridBlock& grid, BlockIQ1_S& b) {
  b.d = f32_to_f16(grid.d);
  for (int j = 0; j < 8; ++j) {
    int high = grid.scales[j] << 12 | (grid.variants[4 * j] != 0 ? 0x8000 : 0);
    for (int i = 0; i < 4; ++i) {
      b.qs[4 * j + i] = static_cast<uint8_t>(grid.points[4 * j + i]);
      high |= grid.points[4 * j + i] >> 8 << (3 * i);
    }
    b.qh[j] = static_cast<uint16_t>(high);
  }
}

inline void pack(const GridBlock& grid, BlockIQ1_M& b) {
  const uint16_t d = f32_to_f16(grid.d);
  for (int k = 0; k < 4; ++k) {
    int word = (d >> (4 * k) & 15) << 12;
    for (int j = 0; j < 4; ++j) word |= grid.scales[4 * k + j] << (3 * j);
    b.scales[2 * k] = static_cast<uint8_t>(word);
    b.scales[2 * k + 1] = static_cast<uint8_t>(word >> 8);
  }
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 32; ++i) {
    b.qs[i] = static_cast<uint8_t>(grid.points[i]);
    const int high = grid.points[i] >> 8 | (grid.variants[i] != 0 ? 8 : 0);
    b.qh[i / 2] = static_cast<uint8_t>(b.qh[i / 2] | high << (i % 2 * 4));
  }
}

}  // namespace veery

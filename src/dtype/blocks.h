// blocks.h: memory layout of the quantised blocks, as in GGUF files; plain data, shared with
// kernels.
#pragma once
#include <cstddef>
#include <cstdint>

namespace veery {

// Layouts: GGML's block formats (GGUF specification; ggml quantisation types). `d` and `m` are f16
// bits unless stated otherwise. In blocks of 32, element i is in the low nibble of qs[i] and
// element i + 16 in the high nibble. All integers are little endian.

constexpr int kSmallBlock = 32;   ///< elements of a block without sub-blocks
constexpr int kSuperBlock = 256;  ///< elements of a K block or of a block with a code book

struct BlockQ4_0 {  ///< d * (q - 8)
  uint16_t d;
  uint8_t qs[16];
};
struct BlockQ4_1 {  ///< d * q + m
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
struct BlockQ5_0 {  ///< d * (q - 16); bit i of qh is the fifth bit of element i
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ5_1 {  ///< d * q + m
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {  ///< d * q
  uint16_t d;
  int8_t qs[32];
};
struct BlockQ8_1 {  ///< d * q; s = d * sum(q), for products with weight blocks that have a minimum
  uint16_t d;
  uint16_t s;
  int8_t qs[32];
};

/// 16 sub-blocks of 16: d * scale * q - dmin * min. scales[j]: scale in the low nibble, min in the
/// high one. Element 128 h + 32 s + i is in bits 2 s and 2 s + 1 of qs[32 h + i].
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
/// 16 sub-blocks of 16: d * (scale - 32) * q, q in [-4, 3]: the low bits as in Q2_K, minus 4 if the
/// element's bit of hmask is 0 (element 32 k + i: bit k of hmask[i]).
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
/// 8 sub-blocks of 32: d * scale * q - dmin * min. Element 64 c + i is in the low nibble of qs[32 c
/// + i], element 64 c + 32 + i in the high one.
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
/// As Q4_K, with the fifth bit of element 32 j + i in bit j of qh[i].
struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
/// 16 sub-blocks of 16: d * scale * (q - 32). Element 128 h + 32 s + i: low bits in nibble s / 2 of
/// ql[64 h + 32 (s % 2) + i], high bits in bits 2 s and 2 s + 1 of qh[32 h + i].
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
/// d (f32) * q; bsums[j] is the sum of q over elements 16 j to 16 j + 15.
struct BlockQ8_K {
  float d;
  int8_t qs[256];
  int16_t bsums[16];
};

// Blocks whose codes index a code book (dtype/code_books.h).

struct BlockIQ4_NL {  ///< d * book[q]
  uint16_t d;
  uint8_t qs[16];
};
struct BlockMXFP4 {  ///< 2^(e - 128) * book[q]; element order as in Q4_0
  uint8_t e;
  uint8_t qs[16];
};
/// 4 sub-blocks of 16: d[j] / 2 * book[q]; d[j] is an unsigned 8-bit float with a 4-bit exponent
/// and a 3-bit fraction. Element 16 j + i is in the low nibble of qs[8 j + i], element 16 j + 8 + i
/// in the high one.
struct BlockNVFP4 {
  uint8_t d[4];
  uint8_t qs[32];
};
/// 8 sub-blocks of 32, each as in IQ4_NL: d * (scale - 32) * book[q]. The low nibbles of the scales
/// are in scales_l, the upper two bits in scales_h.
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

// Blocks of grid points: 8 (IQ1, IQ2) or 4 (IQ3) elements form one point of the format's grid
// (dtype/grids.h). IQ2 and IQ3 points are magnitudes with one sign bit per element, 1 for minus. If
// only 7 of 8 signs are stored, the eighth makes the number of minus signs even.

/// Sub-blocks of 32: d / 8 * (2 scale + 1) * point. qs holds for each sub-block four 8-bit indices,
/// then 32 bits: four groups of 7 signs, and the scale in the top 4 bits.
struct BlockIQ2_XXS {
  uint16_t d;
  uint16_t qs[32];
};
/// Sub-blocks of 16: d / 8 * (2 scale + 1) * point. Each element of qs: a 9-bit index and 7 signs.
struct BlockIQ2_XS {
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
/// As IQ2_XS, but an index has 8 bits in qs and 2 bits in qh, and all 8 signs are stored.
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
/// Sub-blocks of 32: d / 4 * (2 scale + 1) * point. `signs` has the layout of the 32 bits in
/// IQ2_XXS.
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64];
  uint8_t signs[32];
};
/// Sub-blocks of 32: d * (2 scale + 1) * point; qh holds the ninth bits of the indices.
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
/// Sub-blocks of 32: d * (2 scale + 1) * (point +- 1/8), points of -1, 0, 1. qh holds for each
/// sub-block three high bits of each of four indices, the 3-bit scale, and the sign of the 1/8.
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};
/// As IQ1_S, but with sub-blocks of 16 and a sign of the 1/8 for every 8 elements: each nibble of
/// qh holds three high bits of an index and that sign. Each 16 bits of `scales` hold four 3-bit
/// scales and, in the top 4 bits, a quarter of the f16 d.
struct BlockIQ1_M {
  uint8_t qs[32];
  uint8_t qh[16];
  uint8_t scales[8];
};

// Blocks of elements -1, 0 and 1, times d.

/// Each byte holds five base-3 digits (the most significant first) as a fraction in units of 1/256,
/// rounded up. Element 32 k + i is digit k of qs[i], 160 + 16 k + i is digit k of qs[32 + i], 240 +
/// 4 k + i is digit k of qh[i].
struct BlockTQ1_0 {
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};
struct BlockTQ2_0 {  ///< d * (q - 1), q as in Q2_K
  uint8_t qs[64];
  uint16_t d;
};

/// d * (q - 1); the 2-bit q form one bit stream, lowest bits first.
struct BlockQ2_0 {
  uint16_t d;
  uint8_t qs[16];
};

// 8-bit floats with a scale (dtype/fp8.h); not in GGUF files.

struct BlockMXFP8 {  ///< 2^(e - 127) * e4m3
  uint8_t e;
  uint8_t qs[32];
};
template <int kElements>
struct BlockFP8 {  ///< d (f32) * e4m3
  float d;
  uint8_t qs[kElements];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20, "layout of 4-bit blocks");
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24, "layout of 5-bit blocks");
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ8_1) == 36, "layout of 8-bit blocks");
static_assert(sizeof(BlockQ2_K) == 84 && offsetof(BlockQ2_K, d) == 80, "layout of Q2_K");
static_assert(sizeof(BlockQ3_K) == 110 && offsetof(BlockQ3_K, scales) == 96, "layout of Q3_K");
static_assert(sizeof(BlockQ4_K) == 144 && offsetof(BlockQ4_K, qs) == 16, "layout of Q4_K");
static_assert(sizeof(BlockQ5_K) == 176 && offsetof(BlockQ5_K, qs) == 48, "layout of Q5_K");
static_assert(sizeof(BlockQ6_K) == 210 && offsetof(BlockQ6_K, d) == 208, "layout of Q6_K");
static_assert(sizeof(BlockQ8_K) == 292 && offsetof(BlockQ8_K, bsums) == 260, "layout of Q8_K");
static_assert(sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136, "layout of IQ4");
static_assert(sizeof(BlockMXFP4) == 17 && sizeof(BlockNVFP4) == 36, "layout of FP4");
static_assert(sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ2_XS) == 74, "layout of IQ2");
static_assert(sizeof(BlockIQ2_S) == 82 && offsetof(BlockIQ2_S, scales) == 74, "layout of IQ2_S");
static_assert(sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ3_S) == 110, "layout of IQ3");
static_assert(sizeof(BlockIQ1_S) == 50 && sizeof(BlockIQ1_M) == 56, "layout of IQ1");
static_assert(sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66, "layout of TQ");
static_assert(sizeof(BlockQ2_0) == 18, "layout of Q2_0");

static_assert(sizeof(BlockMXFP8) == 33 && sizeof(BlockFP8<128>) == 132, "layout of FP8");

}  // namespace veery

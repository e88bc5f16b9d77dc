// blocks.h: memory layout of the quantised blocks, as GGUF files hold them; plain data, shared with
// kernels.
#pragma once
#include <cstddef>
#include <cstdint>

namespace veery {

// Layouts: GGML's block formats (GGUF specification; ggml quantisation types). `d` and `m` are f16
// bits unless said otherwise. In blocks of 32, element i is in the low half of qs[i] and element i
// + 16 in the high half. All integers are little endian.

constexpr int kSmallBlock = 32;   ///< elements of the blocks without sub-blocks
constexpr int kSuperBlock = 256;  ///< elements of the K blocks and of those with code books

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
struct BlockQ8_1 {  ///< d * q; s = d * sum(q), for products with blocks that have a minimum
  uint16_t d;
  uint16_t s;
  int8_t qs[32];
};

/// 16 sub-blocks of 16: d * scale * q - dmin * min. scales[j]: scale low, min high.
/// Element 128 h + 32 s + i is in bits 2 s of qs[32 h + i].
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
/// 16 sub-blocks of 16: d * (scale - 32) * q, q in [-4, 3]: low bits as in Q2_K, and 4 less where
/// the bit of hmask is 0 (element 32 k + i: bit k of hmask[i]).
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
/// 8 sub-blocks of 32: d * scale * q - dmin * min. Element 64 c + i is in the low half of qs[32 c +
/// i], 64 c + 32 + i in the high half.
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
/// 16 sub-blocks of 16: d * scale * (q - 32). Element 128 h + 32 s + i: low bits in half s / 2 of
/// ql[64 h + 32 (s % 2) + i], high bits in bits 2 s of qh[32 h + i].
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
/// d (f32) * q; bsums[j] is the sum of the q of sub-block j of 16.
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
struct BlockMXFP4 {  ///< 2^(e - 128) * book[q]; the 32 elements as in Q4_0
  uint8_t e;
  uint8_t qs[16];
};
/// 4 sub-blocks of 16: d[j] / 2 * book[q], d[j] an unsigned 8-bit float, 4 bits exponent, 3 bits
/// fraction. Element 16 j + i in the low half of qs[8 j + i], 16 j + 8 + i in the high half.
struct BlockNVFP4 {
  uint8_t d[4];
  uint8_t qs[32];
};
/// 8 sub-blocks of 32, each as in IQ4_NL: d * (scale - 32) * book[q]; the low halves of the scales
/// in scales_l, two upper bits each in scales_h.
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

// Blocks of grid points: 8 (IQ1, IQ2) or 4 (IQ3) elements are one point of a grid of the format
// (dtype/grids.h). IQ2, IQ3: magnitudes, and a sign for each element, 1 for minus; where 7 signs
// are stored, the eighth makes their number even.

/// Sub-blocks of 32: d / 8 * (2 scale + 1) * point. qs: for each, four indices of a byte; then 32
/// bits: four times 7 signs, the scale on top.
struct BlockIQ2_XXS {
  uint16_t d;
  uint16_t qs[32];
};
/// Sub-blocks of 16: d / 8 * (2 scale + 1) * point. qs: index in 9 bits, 7 signs.
struct BlockIQ2_XS {
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
/// As IQ2_XS, with the index in a byte of qs and two bits of qh, and 8 signs.
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
/// Sub-blocks of 32: d / 4 * (2 scale + 1) * point. signs: as the second 32 bits in IQ2_XXS.
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64];
  uint8_t signs[32];
};
/// Sub-blocks of 32: d * (2 scale + 1) * point; the ninth bits of the indices in qh.
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
/// Sub-blocks of 32: d * (2 scale + 1) * (point +- 1/8), points of -1, 0, 1. qh: three more bits of
/// each of four indices, the scale in 3 bits, the sign of the 1/8.
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};
/// As IQ1_S with sub-blocks of 16 and a sign of the 1/8 for every 8 elements: half a byte of qh is
/// three more bits of an index and the sign. Each 16 bits of scales: four scales of 3 bits, and on
/// top a quarter of the f16 d.
struct BlockIQ1_M {
  uint8_t qs[32];
  uint8_t qh[16];
  uint8_t scales[8];
};

// Blocks of -1, 0 and 1 times d.

/// Five digits of base 3 in a byte, as a fraction of 256 rounded up, the first on top: element 32 k
/// + i is digit k of qs[i], 160 + 16 k + i is digit k of qs[32 + i], 240 + 4 k + i of qh[i].
struct BlockTQ1_0 {
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};
struct BlockTQ2_0 {  ///< d * (q - 1), q as in Q2_K
  uint8_t qs[64];
  uint16_t d;
};

/// d * (q - 1), q of 2 bits as one stream, lowest bits first.
struct BlockQ2_0 {
  uint16_t d;
  uint8_t qs[16];
};

// Floats of 8 bits with a scale (dtype/fp8.h); not in GGUF files.

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

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
constexpr int kSuperBlock = 256;  ///< elements of the K blocks

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

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20, "layout of 4-bit blocks");
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24, "layout of 5-bit blocks");
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ8_1) == 36, "layout of 8-bit blocks");
static_assert(sizeof(BlockQ2_K) == 84 && offsetof(BlockQ2_K, d) == 80, "layout of Q2_K");
static_assert(sizeof(BlockQ3_K) == 110 && offsetof(BlockQ3_K, scales) == 96, "layout of Q3_K");
static_assert(sizeof(BlockQ4_K) == 144 && offsetof(BlockQ4_K, qs) == 16, "layout of Q4_K");
static_assert(sizeof(BlockQ5_K) == 176 && offsetof(BlockQ5_K, qs) == 48, "layout of Q5_K");
static_assert(sizeof(BlockQ6_K) == 210 && offsetof(BlockQ6_K, d) == 208, "layout of Q6_K");
static_assert(sizeof(BlockQ8_K) == 292 && offsetof(BlockQ8_K, bsums) == 260, "layout of Q8_K");

}  // namespace veery

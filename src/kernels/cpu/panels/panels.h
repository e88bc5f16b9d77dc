// panels.h: memory layouts of packed weights: panels of 16 output rows; row n is SIMD lane n.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dtype/affine.h"
#include "dtype/blocks.h"

namespace veery {

// Panel p holds rows 16 p to 16 p + 15 (zeros after the last row), block after block along the
// columns. A *unit* is one block of all 16 rows. A *vector* is 64 bytes [16 n][4 k]: four
// consecutive columns k of each row n, the operand of an int8 dot product instruction. "Low half"
// and "high half" are the halves (nibbles) of each byte. The lists below give the contents of a
// unit in memory order.
//
// Blocks of 32 elements:
//   Q4_0, Q4_1, Q5_0, Q5_1   vectors j = 0 to 3: low halves k = 4 j, high halves k = 16 + 4 j;
//                            Q5: one vector of fifth bits: bit j of byte [n][i] is k = 4 j + i;
//                            f16 d [16]; Q4_1, Q5_1: f16 m [16]
//   Q8_0                     8 vectors of q + 128, f16 d [16]
//   IQ4_NL, MXFP4, NVFP4     vectors as in Q4_0; IQ4_NL: f16 d [16]; MXFP4: exponent bytes e [16];
//                            NVFP4: scale bytes of both halves of the block [2][16]
// Affine groups (dtype/affine.h), one unit per group: for every 32 columns the codes, 64 bytes per
// bit; then 16 scales and 16 biases in the type of the file
//   4 bits        vectors as in Q4_0
//   2 bits        vectors h = 0, 1: bits 2 s hold columns k = 8 h + 4 (s / 2) + 16 (s % 2)
//   6 bits        the lower 4 bits as above, then the upper 2 bits as above
//   3, 5 bits     the lower 2 or 4 bits as above, then a vector of the last bit as in Q5
//   8 bits        8 vectors
// MXFP8, FP8: vectors k = 0, 4, ..; MXFP8: exponent bytes e [16]; FP8: f32 d [16]
// Blocks of 256 elements: half h (128), strip s = 0 to 3 (32), vector j = 0 to 7 (k = 4 j)
//   Q4_K, Q5_K   [h][s / 2][j] vectors, strip s in the low (even s) or high halves;
//                Q5_K: [h][j % 4] vectors of fifth bits: bit s of the low (j < 4) or high half;
//                bytes: scales [h][16 n][s], minima [h][16 n][s]; f16 d [16], f16 dmin [16]
//   Q6_K         [h][s % 2][j] vectors, strip s in the low (s < 2) or high halves; [h][j] vectors,
//                two upper bits of strip s in bits 2 s; scales [h][j / 4][16 n][s] int8; f16 d [16]
//   Q2_K, Q3_K   [h][j] vectors, strip s in bits 2 s; Q3_K: [h][j % 4] vectors of third bits as in
//                Q5_K (0: 4 is subtracted from the value);
//                scales [h][j / 4][16 n][s] (Q2_K: scale | min << 4; Q3_K: int8); f16 d [16];
//                Q2_K: f16 dmin [16]
//   Q8_K         [h][s][j] vectors of q + 128, f32 d [16]
//   Types with a code book (dtype/code_books.h), with int8 scales and f16 d [16] as in Q6_K:
//   4-bit codes  vectors as in Q4_K; scales [h][16 n][s]: IQ4_XS, IQ3_XXS, IQ3_S
//   3-bit codes  vectors as in Q3_K; scales [h][16 n][s]: IQ2_XXS, IQ1_S;
//                scales [h][j / 4][16 n][s]: IQ2_XS, IQ2_S, IQ1_M
//   2-bit codes  vectors as in Q2_K, no scales: TQ1_0, TQ2_0
// F32, F16: [k][16 n]. BF16: [k / 2][16 n][2]; an odd number of columns is padded with a zero.
//
// Q8_0 has a second format, split into three parts: split_panels.h.

/// The kind of quantised activations that a weight type is multiplied with.
enum class Activations : uint8_t {
  kFloat,    ///< f32, not quantised
  kPer32,    ///< int8, one scale for 32 columns
  kPer256,   ///< int8, one scale for 256 columns
  kRounded,  ///< rounded to bf16, stored as f32
  kPairs,    ///< bf16, two columns in a dword
};
inline constexpr int kActivationKinds = 5;

struct PanelFormat {
  int block = 0;  ///< columns per unit; 0: the type cannot be packed
  int unit = 0;   ///< bytes per unit
};

constexpr PanelFormat panel_format(DType type) {
  switch (type) {
    case DType::kQ4_0: return {32, 288};
    case DType::kQ4_1: return {32, 320};
    case DType::kQ5_0: return {32, 352};
    case DType::kQ5_1: return {32, 384};
    case DType::kQ8_0: return {32, 544};
    case DType::kQ2_K: return {256, 1344};
    case DType::kQ3_K: return {256, 1824};
    case DType::kQ4_K: return {256, 2368};
    case DType::kQ5_K: return {256, 2880};
    case DType::kQ6_K: return {256, 3360};
    case DType::kQ8_K: return {256, 4160};
    case DType::kIQ4_NL: return {32, 288};
    case DType::kMXFP4: return {32, 272};
    case DType::kNVFP4: return {32, 288};
    case DType::kIQ4_XS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S: return {256, 2208};
    case DType::kIQ2_XXS:
    case DType::kIQ1_S: return {256, 1696};
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ1_M: return {256, 1824};
    case DType::kTQ1_0:
    case DType::kTQ2_0: return {256, 1056};
    case DType::kF32: return {1, 64};
    case DType::kF16: return {1, 32};
    case DType::kBF16: return {2, 64};
    case DType::kMXFP8: return {32, 16 * sizeof(BlockMXFP8)};
    case DType::kFP8_32: return {32, 16 * sizeof(BlockFP8<32>)};
    case DType::kFP8_128: return {128, 16 * sizeof(BlockFP8<128>)};
    default: break;
  }
  if (!is_affine(type)) return {};
  const AffineFormat format = affine_format(type);
  return {format.group, 16 * format.bytes()};
}

/// Maximum number of separate memory parts of a panel.
inline constexpr int kMostParts = 3;
/// One part of all panels of a weight; that of panel p begins at data + p * stride.
struct PanelPart {
  const std::byte* data = nullptr;
  int64_t stride = 0;
};

}  // namespace veery

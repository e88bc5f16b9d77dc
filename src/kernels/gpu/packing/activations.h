// activations.h: the layout of quantised activations in memory.
#pragma once
#include "kernels/gpu/packing/weight_format.h"

namespace veery::gpu {

/// How a product reads a row of x.
enum class ActivationKind : int32_t {
  kInt8Block32,   ///< int8 codes, a scale for 32; outlier blocks have residual codes as well
                  ///< (kernels/cpu/activations/activations.h)
  kInt8Block256,  ///< int8 codes, a scale for 256 and a shift for 32
  kF32,
  kF32AsBf16,   ///< f32 values that were rounded to bf16
  kBF16,        ///< padded to the 16 columns of a unit
  kInt4Digits,  ///< as kInt8Block256, each code times its shift as two digits
};
VEERY_CONSTANT int kActivationKinds = 6;
VEERY_GPU_HOST constexpr ActivationKind activation_kind(WeightFormat format) {
  if (format == kBF16) return ActivationKind::kBF16;
  if (is_fma_format(format)) return ActivationKind::kF32;
  return weight_format_info(format).block == 32 ? ActivationKind::kInt8Block32
                                                : ActivationKind::kInt8Block256;
}

/// Columns of a weight tile of gemv() are at most these, except for bf16.
VEERY_CONSTANT int kMaxTileColumns = 512;
/// Offsets of the arrays of one token row, in bytes. "int8_32" and "int8_256" are the kinds that
/// have the array. Codes of 32 columns are permuted: 4 t to 4 t + 3 and 16 + 4 t to 16 + 4 t + 3
/// are neighbours, as an mma lane needs both. Arrays are padded to whole weight tiles, because
/// gemv() loads from units past the end, too, and ignores the result.
struct ActivationLayout {
  int32_t codes = 0, scale = 0;
  int32_t sum = 0;       ///< sums of codes; int8_256: int32 per 16 columns, shifted
  int32_t shift = 0;     ///< int8_256: int32 [cols / 32]
  int32_t moment = 0;    ///< int8_32: f32, scale * sum, plus the same of the residual
  int32_t residual = 0;  ///< int8_32: codes of the residual
  int32_t residual_scale = 0, residual_sum = 0;  ///< int8_32; a scale of 0: no residual
  int32_t outliers = 0;                          ///< int8_32: int32 count, then blocks in order
  int32_t bytes = 0;
};
VEERY_GPU_HOST constexpr ActivationLayout activation_layout(ActivationKind kind, int32_t cols) {
  ActivationLayout p;
  int32_t at = 0;
  const int32_t blocks = (cols + kMaxTileColumns - 1) / kMaxTileColumns * (kMaxTileColumns / 32);
  if (kind == ActivationKind::kF32 || kind == ActivationKind::kF32AsBf16) {
    p.bytes = (cols * 4 + 63) / 64 * 64;
    return p;
  }
  if (kind == ActivationKind::kBF16) {
    p.bytes = (cols * 2 + 63) / 64 * 64;
    return p;
  }
  at += 32 * blocks;
  if (kind == ActivationKind::kInt8Block32) {
    const int32_t words = 4 * blocks;
    p.residual = at, at += 32 * blocks;
    p.scale = at, at += words;
    p.sum = at, at += words;
    p.moment = at, at += words;
    p.residual_scale = at, at += words;
    p.residual_sum = at, at += words;
    p.outliers = at, at += 4 * (blocks / 4 + 2);
  } else {
    p.scale = at, at += (4 * (blocks / 8) + 15) / 16 * 16;
    p.shift = at, at += 4 * blocks;
    p.sum = at, at += 8 * blocks;
  }
  p.bytes = (at + 63) / 64 * 64;
  return p;
}

/// The layout of many token rows, for kInt8Block32, kInt8Block256, kBF16 and kInt4Digits: groups of
/// 8 rows (the n of an mma). A group is a sequence of K tiles, so that each of them is one bulk
/// copy. A K tile has:
///   codes     for each 32 columns [8 rows][32], permuted as in ActivationLayout
///   int8_32   scale f32 [4 blocks][8 rows]; sum int32 and moment f32, the same shape
///   int8_256  scale f32 [8 rows]; shift uint8 [2][8 rows][4 of 32 columns]; sums of 32 for minima:
///             f16 [8 rows][4][4], sum / 64 rounded of parts 2 t and 2 t + 1, then the remainders;
///             sums of 16 [2][8 rows][4][4] in the same way
/// Of other kinds:
///   int8_32   After the K tiles: residual, residual_scale and residual_sum for each block of 32,
///             in the order of codes, scale and sum; then the outlier blocks of each row.
///   bf16      K tiles of 128 columns. Those of 16 groups are contiguous: [16 groups][8 of 16
///             columns][2][8 rows][8], columns 4 t and 4 t + 1 of the 16, then 4 t + 2 and 4 t + 3.
///   int4_digits  K tiles of 256 columns. Those of 8 groups are contiguous. A code times 2^shift is
///             16 high + low with low in [0, 15]. Each 32 columns have the high digits, int8 [2][8
///             rows][16 columns], then the low digits. Scale and sums are those of int8_256.
struct ActivationGroupLayout {
  int log2_blocks = 2;                  ///< blocks of 32 columns of a K tile
  int groups_together = 1;              ///< groups whose K tiles of the same columns are contiguous
  int scale = 0, sum = 0, moment = 0;   ///< int8_32, in a K tile
  int shift = 0, sums = 0, sums16 = 0;  ///< int8_256, in a K tile
  int k_tile = 0;                       ///< bytes of a K tile of one group
  int64_t residual = 0, residual_scale = 0, residual_sum = 0;  ///< after the K tiles
  int64_t outliers = 0;
  int64_t outlier_list = 0;  ///< int32 values of a row: count, then blocks in order
  int64_t bytes = 0;         ///< of a group
};
VEERY_GPU_HOST constexpr ActivationGroupLayout activation_group_layout(ActivationKind kind,
                                                                       int64_t cols) {
  ActivationGroupLayout p;
  if (kind == ActivationKind::kBF16) {
    p.groups_together = kBf16GroupsTogether;
    p.k_tile = 128 * 8 * 2;
    p.bytes = (cols + 127) / 128 * p.k_tile;
    return p;
  }
  if (kind == ActivationKind::kInt4Digits) {
    p.groups_together = 8, p.log2_blocks = 3;
    p.scale = 8 * 512, p.sums = p.scale + 32, p.k_tile = p.sums + 256;
    p.bytes = cols / 256 * p.k_tile;
    return p;
  }
  const int64_t blocks = cols / 32;
  p.log2_blocks = kind == ActivationKind::kInt8Block32 ? 2 : 3;
  const int each = 1 << p.log2_blocks;
  p.scale = each * 256;
  if (kind == ActivationKind::kInt8Block32) {
    p.sum = p.scale + 128, p.moment = p.sum + 128, p.k_tile = p.moment + 128;
  } else {
    p.shift = p.scale + 32, p.sums = p.shift + 64, p.sums16 = p.sums + 256;
    p.k_tile = p.sums16 + 512;
  }
  int64_t at = (blocks + each - 1) / each * p.k_tile;
  if (kind == ActivationKind::kInt8Block32) {
    p.outlier_list = blocks / 4 + 2;
    p.residual = at, at += 256 * blocks;
    p.residual_scale = at, at += 32 * blocks;
    p.residual_sum = at, at += 32 * blocks;
    p.outliers = at, at += 32 * p.outlier_list;
  }
  p.bytes = (at + 127) / 128 * 128;
  return p;
}

/// Quantised activations in device memory.
struct Activations {
  VEERY_DEVICE uint8_t* data;
  int64_t stride;  ///< bytes of a row, or of a group
  ActivationKind kind;
  int32_t cols;
  /// Nonzero: residual quantisation. Row 2 r has the codes of token row r, row 2 r + 1 the codes of
  /// its quantisation error.
  int32_t residual_rows;
};

}  // namespace veery::gpu

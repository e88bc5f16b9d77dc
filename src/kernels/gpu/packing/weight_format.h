// weight_format.h: the formats of packed weights in device memory.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// The layout of a weight. A weight is a sequence of panels of 16 rows, and a panel a sequence of
/// units. A unit is one quantisation block of 32 columns (256 for formats with "K") of the 16 rows:
///   codes    for each 32 columns the A fragment of mma_m16n8k32_s8(), lane after lane: 16 bytes
///            per lane. Codes of 4 bits: 8 bytes, whose low nibbles are a0 and a1 and whose high
///            nibbles are a2 and a3
///   d        scales, f16 [8][2]: rows g and g + 8 side by side; f32 if WeightFormatInfo::wide;
///            kNVFP4: e4m3 bytes [8][2 half blocks][2]
///   m        minima, the same, if the format has them
///   scales   K: [8][2][8 or 16] int8
///   minima   K, if the format has minima: the same, unsigned
/// kQ4 stands for codes minus 8, kQ8MW for codes plus 128; kMXFP4 and kNVFP4 for e2m1 codes.
/// A unit of kBF16 is 16 columns: the A fragment of mma_m16n8k16_bf16(), lane after lane: columns
/// 4 t to 4 t + 3 of row g, then of row g + 8. Columns past the end are 0. Other floats are
/// [cols / 4, 8 or 16][16 rows][4, 8 or 16 columns]; kF8 has f32 scales [cols / 32][16 rows] after
/// them.
enum WeightFormat : int32_t {
  kQ8,     ///< 8-bit codes, blocks of 32
  kQ8M,    ///< the same with minima
  kQ4,     ///< 4-bit codes, blocks of 32
  kQ4M,    ///< the same with minima
  kK4M,    ///< 4-bit codes, blocks of 256, a scale and a minimum for 32
  kK8M,    ///< the same with 8-bit codes
  kK8,     ///< 8-bit codes, blocks of 256, a scale for 16
  kK8M16,  ///< the same with minima
  kMXFP4,  ///< e2m1 codes, blocks of 32
  kQ4MW,   ///< 4-bit codes and minima, f32 scales: MLX groups
  kQ8MW,   ///< the same with 8-bit codes
  kNVFP4,  ///< e2m1 codes, a scale for 16
  kBF16,   ///< multiplied by tensor cores where these have bf16
  kF32,
  kF16,
  kF8,  ///< e4m3 times a scale, rounded to f32
};

struct WeightFormatInfo {
  int bits, block, sub;  ///< block: columns of a unit; sub: columns per scale
  bool minima;
  int less = 0;       ///< subtracted from each code
  bool wide = false;  ///< f32 scales, and f32 minima of blocks of 32
};
VEERY_GPU_HOST constexpr WeightFormatInfo weight_format_info(WeightFormat format) {
  switch (format) {
    case kQ8: return {8, 32, 32, false};
    case kQ8M: return {8, 32, 32, true};
    case kQ4: return {4, 32, 32, false, 8};
    case kQ4M: return {4, 32, 32, true};
    case kK4M: return {4, 256, 32, true};
    case kK8M: return {8, 256, 32, true};
    case kK8: return {8, 256, 16, false, 0, true};
    case kK8M16: return {8, 256, 16, true};
    case kMXFP4: return {4, 32, 32, false, 0, true};
    case kQ4MW: return {4, 32, 32, true, 0, true};
    case kQ8MW: return {8, 32, 32, true, -128, true};
    case kNVFP4: return {4, 32, 16, false};
    case kF32: return {32, 4, 0, false};
    case kF8: return {8, 16, 0, false};
    case kBF16: return {16, 16, 0, false};
    default: return {16, 8, 0, false};
  }
}
/// Integer codes with scales.
VEERY_GPU_HOST constexpr bool is_quantized(WeightFormat format) { return format < kBF16; }
/// Whether each half of a block of 32 has its own scale, and is a step of the accumulation.
VEERY_GPU_HOST constexpr bool has_half_scales(WeightFormat format) { return format == kNVFP4; }
/// Whether every machine multiplies the format in sequential f32 fma chains.
VEERY_GPU_HOST constexpr bool is_fma_format(WeightFormat format) { return format > kBF16; }
/// kBF16: columns of a piece. The sums of pieces are added in order (docs/numerics.md).
VEERY_CONSTANT int kBf16PieceColumns = 256;
/// kBF16: row groups of activations whose K tiles are contiguous (ActivationGroupLayout).
VEERY_CONSTANT int kBf16GroupsTogether = 16;
/// Offsets in a unit, and its size, in bytes.
struct UnitLayout {
  int fragment, d, m, scales, minima, bytes;
};
VEERY_GPU_HOST constexpr UnitLayout unit_layout(WeightFormat format) {
  const WeightFormatInfo f = weight_format_info(format);
  if (format == kBF16) return {0, 0, 0, 0, 0, 512};
  if (is_fma_format(format)) return {0, 0, 0, 0, 0, 256};
  const int fragment = f.bits * 64;
  const int d = fragment * (f.block / 32);
  const int each_d = f.wide ? 64 : 32;
  const int m = d + each_d;
  const int scales = m + (f.minima ? each_d : 0);
  const int each = f.block == 256 ? 16 * 256 / f.sub : 0;
  return {fragment, d, m, scales, scales + each, scales + each * (f.minima ? 2 : 1)};
}

struct Weight {
  const VEERY_DEVICE uint8_t* data;
  int64_t panel;  ///< bytes of a panel
  int32_t rows, cols;
  WeightFormat format;
};

}  // namespace veery::gpu

// format.h: how weights lie in a device's memory.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// How the panels of a weight lie: 16 rows, unit after unit. A unit is a block of 32 columns, or of
/// 256 for those with "K", of the 16 rows:
///   codes    for each 32 columns the a of multiply_tile(), lane after lane: 16 bytes, or 8 where a
///            code has 4 bits, the low halves being those of a0 and a1, the high ones of a2 and a3
///   d        f16 [8][2]: rows g and g + 8 together; FormatInfo::wide: f32; kBook2: bytes of e4m3
///            [8][2 halves][2]
///   m        the same, where there are minima
///   scales   K: [8][2][8 or 16] int8
///   minima   K, where there are minima: the same, unsigned
/// kQ4 stands for codes from which 8 is taken, kQ8MW for bytes to which 128 is added; kBook and
/// kBook2 for those of the book of MXFP4. Units of kBF16 are 16 columns: the a of multiply_bf16(),
/// lane after lane: columns 4 t to 4 t + 3 of row g, then of row g + 8; what is missing of the last
/// is 0. Other floats: [cols / 4, 8 or 16][16 rows][4, 8 or 16 columns]; behind those of kF8 f32
/// [cols / 32][16 rows].
enum Format : int32_t {
  kQ8,     ///< 8 bits a code
  kQ8M,    ///< with minima
  kQ4,     ///< 4 bits
  kQ4M,    ///< with minima
  kK4M,    ///< scales and minima for 32
  kK8M,    ///< the same with 8 bits
  kK8,     ///< scales for 16
  kK8M16,  ///< scales and minima for 16
  kBook,   ///< 4 bits of a code book
  kQ4MW,   ///< 4 bits, with minima; as MLX has them
  kQ8MW,   ///< 8 bits, with minima
  kBook2,  ///< as kBook, with scales for 16
  kBF16,   ///< tensor cores multiply floats
  kF32,
  kF16,
  kF8,  ///< e4m3 times a scale, rounded to f32
};

struct FormatInfo {
  int bits, block, sub;  ///< sub: columns a scale
  bool minima;
  int less = 0;       ///< what is taken from a code
  bool wide = false;  ///< scales, and minima of blocks of 32, are f32
};
VEERY_GPU_HOST constexpr FormatInfo format_info(Format format) {
  switch (format) {
    case kQ8: return {8, 32, 32, false};
    case kQ8M: return {8, 32, 32, true};
    case kQ4: return {4, 32, 32, false, 8};
    case kQ4M: return {4, 32, 32, true};
    case kK4M: return {4, 256, 32, true};
    case kK8M: return {8, 256, 32, true};
    case kK8: return {8, 256, 16, false, 0, true};
    case kK8M16: return {8, 256, 16, true};
    case kBook: return {4, 32, 32, false, 0, true};
    case kQ4MW: return {4, 32, 32, true, 0, true};
    case kQ8MW: return {8, 32, 32, true, -128, true};
    case kBook2: return {4, 32, 16, false};
    case kF32: return {32, 4, 0, false};
    case kF8: return {8, 16, 0, false};
    case kBF16: return {16, 16, 0, false};
    default: return {16, 8, 0, false};
  }
}
/// Whole numbers with scales.
VEERY_GPU_HOST constexpr bool is_coded(Format format) { return format < kBF16; }
/// A scale for each half of a block of 32, which are steps of a chain.
VEERY_GPU_HOST constexpr bool has_halves(Format format) { return format == kBook2; }
/// What is multiplied in chains of fma on every machine.
VEERY_GPU_HOST constexpr bool is_chained(Format format) { return format > kBF16; }
/// Columns of the pieces whose sums are added in order, for kBF16: docs/numerics.md.
VEERY_CONSTANT int kPieceColumns = 256;
/// Groups of 8 rows of a form of kBF16 that lie together (TilePlaces).
VEERY_CONSTANT int kGroupsTogether = 16;
/// Where the parts of a unit lie, in bytes.
struct UnitPlaces {
  int tile, d, m, scales, minima, bytes;
};
VEERY_GPU_HOST constexpr UnitPlaces unit_places(Format format) {
  const FormatInfo f = format_info(format);
  if (format == kBF16) return {0, 0, 0, 0, 0, 512};
  if (is_chained(format)) return {0, 0, 0, 0, 0, 256};
  const int tile = f.bits * 64;
  const int d = tile * (f.block / 32);
  const int each_d = f.wide ? 64 : 32;
  const int m = d + each_d;
  const int scales = m + (f.minima ? each_d : 0);
  const int each = f.block == 256 ? 16 * 256 / f.sub : 0;
  return {tile, d, m, scales, scales + each, scales + each * (f.minima ? 2 : 1)};
}

struct Weight {
  const VEERY_DEVICE uint8_t* data;
  int64_t panel;  ///< bytes
  int32_t rows, cols;
  Format format;
};

}  // namespace veery::gpu

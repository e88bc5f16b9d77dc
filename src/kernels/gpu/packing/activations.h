// form_places.h: where what products take of activations lies (functions/linear/form.h).
#pragma once
#include "kernels/gpu/packing/weight_format.h"

namespace veery::gpu {

/// A row of activations as the products take it. For blocks of 32: int8 codes and their scales, and
/// of blocks that are outliers what the codes leave over (kernels/cpu/form/activations.h). For
/// blocks of 256: a scale, and a shift for each 32. kBF16: bf16, as many as weights have of 16
/// columns. kRounded: floats that were rounded to bf16. kPlanes: as kPer256, with codes times
/// shifts as two digits.
enum class FormKind : int32_t { kPer32, kPer256, kFloat, kRounded, kBF16, kPlanes };
VEERY_CONSTANT int kFormKinds = 6;
VEERY_GPU_HOST constexpr FormKind form_kind(Format format) {
  if (format == kBF16) return FormKind::kBF16;
  if (is_chained(format)) return FormKind::kFloat;
  return format_info(format).block == 32 ? FormKind::kPer32 : FormKind::kPer256;
}

VEERY_CONSTANT int kItemColumns = 512;  ///< of an item of linear_row.h at most, but for bf16
/// Where the arrays of a row lie, in bytes from its beginning. In codes the columns 4 t to 4 t + 3
/// and 16 + 4 t to 16 + 4 t + 3 of each 32 are neighbours. Arrays have room for whole items
/// (linear_row.h): of units that are not there something is loaded too, though not used.
struct FormPlaces {
  int32_t codes = 0, scale = 0, sum = 0;  ///< per 256: sum int32 of each 16, shifted
  int32_t shift = 0;                      ///< per 256: int32 [cols / 32]
  int32_t moment = 0;                     ///< per 32: f32, scale times sum and the same of residual
  int32_t residual = 0, residual_scale = 0,
          residual_sum = 0;  ///< per 32: codes, scale (0: none), sum
  int32_t outliers = 0;      ///< per 32: int32 count, then blocks in order
  int32_t bytes = 0;
};
VEERY_GPU_HOST constexpr FormPlaces form_places(FormKind kind, int32_t cols) {
  FormPlaces p;
  int32_t at = 0;
  const int32_t blocks = (cols + kItemColumns - 1) / kItemColumns * (kItemColumns / 32);
  if (kind == FormKind::kFloat || kind == FormKind::kRounded) {
    p.bytes = (cols * 4 + 63) / 64 * 64;
    return p;
  }
  if (kind == FormKind::kBF16) {
    p.bytes = (cols * 2 + 63) / 64 * 64;
    return p;
  }
  at += 32 * blocks;
  if (kind == FormKind::kPer32) {
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

/// The form of many rows, for kPer32, kPer256 and kBF16: groups of 8 rows, and of a group slab
/// after slab, so that each of them is one piece of memory:
///   codes   for each 32 columns [8 rows][32], in the order that FormPlaces tells
///   kPer32  scale f32 [4 blocks][8 rows], sum int32 the same, moment f32 the same
///   kPer256 scale f32 [8 rows]; shift uint8 [2][8 rows][4 of 32 columns]; sums of 32 for minima:
///           f16 [8 rows][4][4], of parts 2 t and 2 t + 1 what 64 goes into, then what is left
///           over; sums of 16 [2][8 rows][4][4] likewise
/// Behind the slabs, kPer32: residual, residual_scale and residual_sum for each block of 32 as
/// codes, scale and sum; and of each row the number of its outliers and these.
/// kBF16: 16 groups together, slabs of 128 columns, each one piece: [16 groups][8 of 16 columns][2]
/// [8 rows][8], columns 4 t and 4 t + 1 of the 16, then 4 t + 2 and 4 t + 3. `bytes`: of a group.
/// kPlanes: 8 groups together, slabs of 256 columns. A code times 2 to the power of its shift is
/// 16 high + low, low being 0 to 15: for each 32 columns the high digits, int8 [2][8 rows][16
/// columns], then the low ones; scale and sums as kPer256.
struct TilePlaces {
  int bits = 2;                         ///< 2 to their power: blocks of 32 of a slab
  int together = 1;                     ///< groups whose slabs of the same columns are one piece
  int scale = 0, sum = 0, moment = 0;   ///< kPer32, in a slab
  int shift = 0, sums = 0, sums16 = 0;  ///< kPer256, in a slab
  int slab = 0;                         ///< bytes
  int64_t residual = 0, residual_scale = 0, residual_sum = 0;
  int64_t outliers = 0, list = 0;  ///< list: int32 a row
  int64_t bytes = 0;               ///< of a group
};
VEERY_GPU_HOST constexpr TilePlaces tile_places(FormKind kind, int64_t cols) {
  TilePlaces p;
  if (kind == FormKind::kBF16) {
    p.together = kGroupsTogether;
    p.slab = 128 * 8 * 2;
    p.bytes = (cols + 127) / 128 * p.slab;
    return p;
  }
  if (kind == FormKind::kPlanes) {
    p.together = 8, p.bits = 3;
    p.scale = 8 * 512, p.sums = p.scale + 32, p.slab = p.sums + 256;
    p.bytes = cols / 256 * p.slab;
    return p;
  }
  const int64_t blocks = cols / 32;
  p.bits = kind == FormKind::kPer32 ? 2 : 3;
  const int each = 1 << p.bits;
  p.scale = each * 256;
  if (kind == FormKind::kPer32) {
    p.sum = p.scale + 128, p.moment = p.sum + 128, p.slab = p.moment + 128;
  } else {
    p.shift = p.scale + 32, p.sums = p.shift + 64, p.sums16 = p.sums + 256;
    p.slab = p.sums16 + 512;
  }
  int64_t at = (blocks + each - 1) / each * p.slab;
  if (kind == FormKind::kPer32) {
    p.list = blocks / 4 + 2;
    p.residual = at, at += 256 * blocks;
    p.residual_scale = at, at += 32 * blocks;
    p.residual_sum = at, at += 32 * blocks;
    p.outliers = at, at += 32 * p.list;
  }
  p.bytes = (at + 127) / 128 * 128;
  return p;
}

struct Form {
  VEERY_DEVICE uint8_t* data;
  int64_t stride;  ///< bytes, of a row
  FormKind kind;
  int32_t cols;
  int32_t two_terms;  ///< rows 2 r and 2 r + 1 are row r: codes, and what they leave over
};

}  // namespace veery::gpu

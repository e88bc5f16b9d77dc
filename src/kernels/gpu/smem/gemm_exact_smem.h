// fma_places.h: what linear_fma() and experts_fma() have in the memory of a block of threads.
#pragma once
#include "kernels/gpu/packing/weight_format.h"

namespace veery::gpu {

/// A block of threads is a warp. It has two panels of outputs and some rows of x, which it copies
/// to a ring of stages, some columns each:
///   panels  twice: codes or floats, and behind them what they are multiplied by
///   x       f32 [rows][columns]
template <Format kFormat, int kRows>
struct FmaPlaces {
  VEERY_STATIC FormatInfo kInfo = format_info(kFormat);
  VEERY_STATIC UnitPlaces kUnit = unit_places(kFormat);
  VEERY_STATIC int kColumns = (kFormat == kF32 ? 32 : 64) * (kRows == 1 ? 2 : 1);
  VEERY_STATIC bool kLarge = kInfo.block > kColumns;  ///< a stage is a part of a unit
  /// Units of a panel, or the codes of a part of one.
  VEERY_STATIC int kCodes =
      kLarge ? kColumns / 32 * kUnit.tile : kColumns / kInfo.block * kUnit.bytes;
  /// Scales that do not lie beside: those of the whole unit, or of kF8.
  VEERY_STATIC int kScales = kLarge           ? kUnit.bytes - kUnit.d
                             : kFormat == kF8 ? kColumns / 32 * 64
                                              : 0;
  VEERY_STATIC int kPanel = kCodes + kScales;
  VEERY_STATIC int kX = 2 * kPanel, kStage = kX + kRows * kColumns * 4;
};
/// Bytes of a ring, which has as many stages as there is room for. Metal gives a block 32 KiB.
VEERY_GPU_HOST constexpr int fma_bytes(int64_t rows) { return rows == 1 ? 32 << 10 : 24 << 10; }
VEERY_CONSTANT int kFmaRows = 8;  ///< of x at a time, where there are several

}  // namespace veery::gpu

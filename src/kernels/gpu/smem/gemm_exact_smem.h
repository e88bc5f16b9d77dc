// gemm_exact_smem.h: shared memory of gemm_exact() and experts_exact().
#pragma once
#include "kernels/gpu/packing/weight_format.h"

namespace veery::gpu {

/// A thread block is one warp. It copies two panels of outputs and kRows token rows to a
/// multi-stage ring, kColumns columns at a time. A stage is
///   panels  twice: codes or floats, and after them their scales
///   x       f32 [rows][columns]
template <WeightFormat kFormat, int kRows>
struct GemmExactSmem {
  VEERY_STATIC WeightFormatInfo kInfo = weight_format_info(kFormat);
  VEERY_STATIC UnitLayout kUnit = unit_layout(kFormat);
  VEERY_STATIC int kColumns = (kFormat == kF32 ? 32 : 64) * (kRows == 1 ? 2 : 1);
  VEERY_STATIC bool kLarge = kInfo.block > kColumns;  ///< a stage is part of a unit
  /// Bytes of the units of a panel, or of the codes of a part of one.
  VEERY_STATIC int kCodes =
      kLarge ? kColumns / 32 * kUnit.fragment : kColumns / kInfo.block * kUnit.bytes;
  /// Bytes of scales that are stored apart from the codes: those of a whole unit, or of kF8.
  VEERY_STATIC int kScales = kLarge           ? kUnit.bytes - kUnit.d
                             : kFormat == kF8 ? kColumns / 32 * 64
                                              : 0;
  VEERY_STATIC int kPanel = kCodes + kScales;
  VEERY_STATIC int kX = 2 * kPanel, kStage = kX + kRows * kColumns * 4;
};
/// Bytes of the ring, which has as many stages as fit. Metal gives a threadgroup 32 KiB.
VEERY_GPU_HOST constexpr int gemm_exact_smem_bytes(int64_t rows) {
  return rows == 1 ? 32 << 10 : 24 << 10;
}
VEERY_CONSTANT int kGemmExactRows = 8;  ///< token rows per thread block, if there are several

}  // namespace veery::gpu

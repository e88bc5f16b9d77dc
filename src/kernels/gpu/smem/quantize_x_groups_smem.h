// quantize_x_groups_smem.h: work split and shared memory of quantize_x_groups().
#pragma once
#include "kernels/gpu/packing/activations.h"

namespace veery::gpu {

/// Offsets in floats.
struct QuantizeXGroupsSmem {
  int inverse;  ///< 1 / RMS of each row; before it, kInt8Block32: max_abs [slots][cols / 32]
  int weights, rows, pitch;
  int64_t floats;
  /// Whether a thread block needs whole rows: for a norm, or for the mean magnitude of the blocks.
  static VEERY_GPU_HOST constexpr bool needs_rows(ActivationKind kind, bool normed) {
    return normed || kind == ActivationKind::kInt8Block32;
  }
  /// Columns of a row that a warp quantises at a time; a lane has 4 of each 16.
  static VEERY_GPU_HOST constexpr int columns(ActivationKind kind) {
    return kind == ActivationKind::kInt8Block256 || kind == ActivationKind::kInt4Digits ? 256 : 128;
  }
  /// 256 columns take twice as many registers.
  static VEERY_GPU_HOST constexpr int max_warps(ActivationKind kind) {
    return columns(kind) == 256 ? 4 : 8;
  }
};
/// `slots`: rows of a group that a thread block fills; `rows`: token rows that it reads.
VEERY_GPU_HOST constexpr QuantizeXGroupsSmem quantize_x_groups_smem(ActivationKind kind,
                                                                    int32_t cols, int slots,
                                                                    int rows, bool staged) {
  QuantizeXGroupsSmem p{};
  p.inverse = kind == ActivationKind::kInt8Block32 ? (slots * (cols / 32) + 3) / 4 * 4 : 0;
  p.weights = p.inverse + 8;
  p.rows = p.weights + cols;
  p.pitch = cols + 16;  // neighbouring rows start in different banks
  p.floats = staged ? p.rows + int64_t{rows} * p.pitch : p.weights;
  return p;
}

}  // namespace veery::gpu

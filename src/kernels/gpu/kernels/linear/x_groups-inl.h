// x_groups-inl.h: quantised activations in groups of 8 rows (ActivationGroupLayout).
#pragma once
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

/// One group of 8 rows.
struct ActivationGroup {
  uint8_t* at;
  ActivationGroupLayout layout;

  /// Returns the K tile that has block b of 32 columns.
  VEERY_GPU uint8_t* k_tile(int b) const {
    return at + int64_t{b >> layout.log2_blocks} * layout.k_tile * layout.groups_together;
  }
  /// kInt8Block32: an element of an array [block][row] in a K tile.
  template <typename T>
  VEERY_GPU T& in_k_tile(int offset, int b, int row) const {
    return reinterpret_cast<T*>(k_tile(b) + offset)[b % 4 * 8 + row];
  }
  template <typename T>
  VEERY_GPU T& after_k_tiles(int64_t offset, int b, int row) const {
    return reinterpret_cast<T*>(at + offset)[b * 8 + row];
  }
  VEERY_GPU int32_t* outliers(int row) const {
    return reinterpret_cast<int32_t*>(at + layout.outliers) + row * layout.outlier_list;
  }
};
VEERY_GPU ActivationGroup activation_group(const Activations& act, int64_t group) {
  const ActivationGroupLayout layout = activation_group_layout(act.kind, act.cols);
  const int64_t in = group % layout.groups_together;
  return {act.data + (group - in) * act.stride + in * layout.k_tile, layout};
}

/// Returns the B fragment of mma_m16n8k16_bf16() from 16 columns of 8 rows.
VEERY_GPU Two<uint32_t> load_bf16_fragment(const uint8_t* at) {
  return {load<uint32_t>(at + lane() * 4), load<uint32_t>(at + 128 + lane() * 4)};
}

}  // namespace veery::gpu

// float_kernels.h: the vectorised f32 kernels, one table per source file.
#pragma once
#include "kernels/common/table.h"

namespace veery {

KernelRows fast_attend();
KernelRows fast_choose_positions();
KernelRows fast_elementwise();
KernelRows fast_argmax();
KernelRows fast_rms_norm();
KernelRows fast_layer_norm();
KernelRows fast_scan();
KernelRows fast_conv1d();
KernelRows fast_rope();  ///< rope_angles, rope, position_scale, cache_write, qkv_rope

}  // namespace veery

/// Expands to the table entries, one per target, of the single-phase kernel
/// veery::HWY_NAMESPACE::fast_NAME, which is compiled through foreach_f32_target.h.
#define VEERY_F32_ROWS(op, accepts, name, scratch) \
  VEERY_EACH_F32_TARGET(VEERY_F32_ROW, op, accepts, name, scratch)
#define VEERY_F32_ROW(copy, target, suffix, op, accepts, name, scratch)               \
  {                                                                                   \
    op, target, accepts, { #name "_" suffix, {copy::fast_##name }, nullptr, scratch } \
  }

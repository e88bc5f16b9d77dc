// float_kernels.h: the vectorised kernels that compute in f32, a table for each file.
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
KernelRows fast_rope();  ///< rope_angles, rope, cache_write, qkv_rope

}  // namespace veery

/// The rows of a kernel with one phase, veery::HWY_NAMESPACE::fast_NAME, compiled by way of
/// foreach_f32_target.h.
#define VEERY_F32_ROWS(op, accepts, name, scratch) \
  VEERY_EACH_F32_TARGET(VEERY_F32_ROW, op, accepts, name, scratch)
#define VEERY_F32_ROW(copy, target, suffix, op, accepts, name, scratch)               \
  {                                                                                   \
    op, target, accepts, { #name "_" suffix, {copy::fast_##name }, nullptr, scratch } \
  }

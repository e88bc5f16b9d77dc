// float_kernels.h: the vectorised kernels that compute in f32, a table for each file.
#pragma once
#include "kernels/common/table.h"

namespace veery {

KernelRows fast_attend();
KernelRows fast_elementwise();
KernelRows fast_argmax();
KernelRows fast_rms_norm();
KernelRows fast_layer_norm();
KernelRows fast_rope();  ///< rope_angles, rope, cache_write, qkv_rope

}  // namespace veery

/// The rows of a kernel with one phase, veery::HWY_NAMESPACE::fast_NAME, compiled by way of
/// foreach_f32_target.h.
#if defined(__aarch64__)
#define VEERY_F32_ROWS(op, accepts, name, scratch)                                          \
  {                                                                                         \
    op, Target::kNeon, accepts, { #name "_neon", {N_NEON::fast_##name }, nullptr, scratch } \
  }
#else
#define VEERY_F32_ROWS(op, accepts, name, scratch)                                              \
  {op, Target::kAvx512, accepts, {#name "_avx512", {N_AVX3::fast_##name}, nullptr, scratch}}, { \
    op, Target::kAvx2, accepts, { #name "_avx2", {N_AVX2::fast_##name }, nullptr, scratch }     \
  }
#endif

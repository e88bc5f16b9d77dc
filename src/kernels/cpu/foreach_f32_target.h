// foreach_f32_target.h: foreach_target.h for files that compute in f32 only: the AVX-512 copy
// serves machines with and without integer dot products (that for NEON likewise), and there is no
// plain copy (kernels/reference is that). Code between #if VEERY_F32_TARGET and #endif is compiled
// for AVX2 (N_AVX2) and AVX-512 (N_AVX3), or for NEON (N_NEON).

// No include guard: Highway includes the kernel file, and so this one, again for each target.
#ifndef HWY_DISABLED_TARGETS
#if defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SCALAR | HWY_SVE | VEERY_UNUSED_SVE)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#endif
#include "kernels/cpu/foreach_target.h"

#ifndef VEERY_F32_TARGET
#define VEERY_F32_TARGET \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)
#endif

// VEERY_EACH_F32_TARGET(ROW): ROW(copy, target, suffix) for each of them, the widest first.
#ifndef VEERY_EACH_F32_TARGET
#if defined(__aarch64__)
#define VEERY_EACH_F32_TARGET(ROW) ROW(N_NEON, Target::kNeon, "neon")
#else
#define VEERY_EACH_F32_TARGET(ROW) \
  ROW(N_AVX3, Target::kAvx512, "avx512") ROW(N_AVX2, Target::kAvx2, "avx2")
#endif
#endif

// foreach_f32_target.h: foreach_target.h for files that compute in f32 only: the AVX-512 copy
// serves machines with and without integer dot products, and there is no plain copy
// (kernels/reference is that). Code between #if VEERY_F32_TARGET and #endif is compiled for AVX2
// (N_AVX2) and AVX-512 (N_AVX3).

// No include guard: Highway includes the kernel file, and so this one, again for each target.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "kernels/cpu/foreach_target.h"

#ifndef VEERY_F32_TARGET
#define VEERY_F32_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
#endif

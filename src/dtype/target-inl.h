// target-inl.h: Highway's macros of the current target (HWY_BEFORE_NAMESPACE and so on) without its
// vector operations, which this project does not use here and which take three seconds per file to
// parse.
#if defined(VEERY_DTYPE_TARGET_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_TARGET_INL_H
#undef VEERY_DTYPE_TARGET_INL_H
#else
#define VEERY_DTYPE_TARGET_INL_H
#endif

#include <hwy/base.h>
//
#include <hwy/ops/set_macros-inl.h>

#if HWY_ARCH_X86_64
// GCC's own headers leave variables uninitialised on purpose, and it warns of them where they are
// inlined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#elif HWY_ARCH_ARM_A64
#include <arm_neon.h>
#endif

#endif  // VEERY_DTYPE_TARGET_INL_H

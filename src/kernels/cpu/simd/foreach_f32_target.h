// foreach_f32_target.h: foreach_target.h for source files without integer dot products. They are
// compiled for AVX2 (N_AVX2), AVX-512 (N_AVX3) or NEON (N_NEON), and for a plain target. The
// AVX-512 and NEON copies serve machines with and without integer dot products.

// No include guard: Highway includes the kernel file, and so this one, again for each target.
#ifndef HWY_DISABLED_TARGETS
#if defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | VEERY_UNUSED_SVE)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#endif
#include "kernels/cpu/simd/foreach_target.h"

// VEERY_EACH_F32_TARGET(ROW, ...) expands to ROW(copy, target, suffix, ...) for each target, the
// widest vectors first.
#ifndef VEERY_EACH_F32_TARGET
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2
#define VEERY_EACH_F32_TARGET(ROW, ...)                              \
  ROW(N_AVX3, Target::kAvx512, "avx512" __VA_OPT__(, ) __VA_ARGS__), \
      ROW(N_AVX2, Target::kAvx2, "avx2" __VA_OPT__(, ) __VA_ARGS__), \
      ROW(HWY_NAMESPACE, Target::kPlain, "plain" __VA_OPT__(, ) __VA_ARGS__)
#elif HWY_ARCH_ARM_A64
#define VEERY_EACH_F32_TARGET(ROW, ...)                          \
  ROW(N_NEON, Target::kNeon, "neon" __VA_OPT__(, ) __VA_ARGS__), \
      ROW(N_SCALAR, Target::kPlain, "plain" __VA_OPT__(, ) __VA_ARGS__)
#else
#define VEERY_EACH_F32_TARGET(ROW, ...) \
  ROW(HWY_NAMESPACE, Target::kPlain, "plain" __VA_OPT__(, ) __VA_ARGS__)
#endif
#endif

// VEERY_FOR_F32_TARGET(target, symbol) is the copy of `symbol` for a veery::Target.
#ifndef VEERY_FOR_F32_TARGET
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2
#define VEERY_FOR_F32_TARGET(target, symbol)                                     \
  (::veery::vectors_of(target) == ::veery::Target::kAvx512Vnni ||                \
           (target) == ::veery::Target::kAvx512                                  \
       ? N_AVX3::symbol                                                          \
   : (target) == ::veery::Target::kAvxVnni || (target) == ::veery::Target::kAvx2 \
       ? N_AVX2::symbol                                                          \
       : HWY_NAMESPACE::symbol)
#elif HWY_ARCH_ARM_A64
#define VEERY_FOR_F32_TARGET(target, symbol)                                                    \
  ((target) == ::veery::Target::kNeonDot || (target) == ::veery::Target::kNeon ? N_NEON::symbol \
                                                                               : N_SCALAR::symbol)
#else
#define VEERY_FOR_F32_TARGET(target, symbol) HWY_NAMESPACE::symbol
#endif
#endif

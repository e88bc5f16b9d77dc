// foreach_target.h: compiles a source file once for each supported instruction set, through
// Highway's foreach_target.h.
//
// A kernel file x.cc starts with
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/cpu/x.cc"
//   #include "kernels/cpu/simd/foreach_target.h"
//   #include "kernels/cpu/simd/simd-inl.h"
// Its code is between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() in namespace
// veery::HWY_NAMESPACE. Under #if HWY_ONCE it selects a copy with VEERY_FOR_TARGET.

// No include guard: Highway includes the kernel file, and so this one, again for each target.
#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | VEERY_UNUSED_SVE)
#endif
// On ARM the compiler's baseline includes NEON, so Highway would omit the plain copy. This keeps
// it.
#if defined(__aarch64__) && !defined(HWY_COMPILE_ALL_ATTAINABLE)
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
#ifndef VEERY_UNUSED_SVE
#define VEERY_UNUSED_SVE (HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
#include <hwy/foreach_target.h>
//
#include "dtype/target-inl.h"

// VEERY_FOR_TARGET(target, symbol) is the copy of `symbol` for a veery::Target. kPlain and
// kReference get the plain copy, which on x86 is the one for the compiler's baseline. N_SSE4 stands
// for AVX-VNNI and N_SVE for NEON with dot products (simd-inl.h).
#ifndef VEERY_FOR_TARGET
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2
#define VEERY_FOR_TARGET(target, symbol)                                           \
  (::veery::vectors_of(target) == ::veery::Target::kAvx512Vnni ? N_AVX3_DL::symbol \
   : (target) == ::veery::Target::kAvx512                      ? N_AVX3::symbol    \
   : (target) == ::veery::Target::kAvxVnni                     ? N_SSE4::symbol    \
   : (target) == ::veery::Target::kAvx2                        ? N_AVX2::symbol    \
                                                               : HWY_NAMESPACE::symbol)
#elif HWY_ARCH_ARM_A64
#define VEERY_FOR_TARGET(target, symbol)                  \
  ((target) == ::veery::Target::kNeonDot ? N_SVE::symbol  \
   : (target) == ::veery::Target::kNeon  ? N_NEON::symbol \
                                         : N_SCALAR::symbol)
#else
#define VEERY_FOR_TARGET(target, symbol) HWY_NAMESPACE::symbol
#endif
#endif

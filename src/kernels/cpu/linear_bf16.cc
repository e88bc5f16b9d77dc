// Panels of BF16 times rows rounded to bf16. Contract: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_bf16.cc"
#include "kernels/cpu/foreach_target.h"
//
#include "kernels/cpu/flush_subnormals.h"
#include "kernels/cpu/linear_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE F32 even_column(I32 pair) { return as_float(shl<16>(pair)); }
HWY_INLINE F32 odd_column(I32 pair) {
  return as_float(bit_and(pair, set(static_cast<int32_t>(0xffff0000))));
}

// Two columns are the halves of a vector's lanes.
struct PanelPairs : FloatDefaults {
  static constexpr int kBlock = 2, kStep = 2, kTerms = 2;
  static constexpr int kUnit = panel_format(DType::kBF16).unit;
  static HWY_INLINE I32 vector(const uint8_t* w) { return load_int(w); }
};
// What the instruction for bf16 does: the odd column first, and no subnormal numbers.
struct PanelBF16 : PanelPairs {
  static constexpr Activations kActivations = Activations::kRounded;
  using Mode = FlushSubnormals;
  template <int i>
  static HWY_INLINE F32 value(I32 pair, Scale) {
    return i == 0 ? odd_column(pair) : even_column(pair);
  }
};
struct PanelExactBF16 : PanelPairs {
  template <int i>
  static HWY_INLINE F32 value(I32 pair, Scale) {
    return i == 0 ? even_column(pair) : odd_column(pair);
  }
};

#if HWY_TARGET == HWY_AVX3_DL
struct PanelDotBF16 : PanelPairs {
  static constexpr int kTerms = 1;
  static constexpr Activations kActivations = Activations::kPairs;
  static HWY_INLINE const int32_t* activations(const ActivationGroup& g) {
    return reinterpret_cast<const int32_t*>(g.pairs);
  }
  template <int>
  static HWY_INLINE I32 value(I32 pair, Scale) {
    return pair;
  }
  static HWY_INLINE F32 add_product(F32 sum, I32 of_row, I32 value) {
    return dot2_bf16(sum, of_row, value);
  }
};
#else
using PanelDotBF16 = PanelBF16;
#endif

}  // namespace

// By fma, by the instruction for bf16, exact.
extern const PanelKernels kBf16Kernels[3];
constexpr PanelKernels kBf16Kernels[3] = {kernels<PanelBF16>(), kernels<PanelDotBF16>(),
                                          kernels<PanelExactBF16>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace veery {
namespace {

// AVX512_BF16 (CPUID leaf 7, sub-leaf 1, bit 5 of EAX) without AMX-BF16 (sub-leaf 0, bit 22 of
// EDX; Intel SDM volume 2A). A Xeon with those tiles did it at half of the rate of fma.
bool has_fast_bf16_dot() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 22 & 1) != 0) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
#else
  return false;
#endif
}

}  // namespace

bool uses_bf16_dot(Target target) {
  static const bool fast = has_fast_bf16_dot();
  return fast && vectors_of(target) == Target::kAvx512Vnni;
}

const PanelKernels* bf16_kernels(Target target, bool exact) {
  return VEERY_FOR_TARGET(target, kBf16Kernels) + (exact ? 2 : uses_bf16_dot(target) ? 1 : 0);
}

}  // namespace veery
#endif

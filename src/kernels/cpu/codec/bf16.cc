// Microkernels for BF16 panels and rows rounded to bf16. Accumulation order: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/bf16.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/float-inl.h"
#include "kernels/cpu/simd/bf16_dot.h"
#include "kernels/cpu/simd/flush_subnormals.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE F32 even_column(I32 pair) { return as_float(shl<16>(pair)); }
HWY_INLINE F32 odd_column(I32 pair) {
  return as_float(bit_and(pair, set(static_cast<int32_t>(0xffff0000))));
}

// Each 32-bit lane of a vector holds two columns.
struct PanelPairs : FloatDefaults {
  static constexpr int kBlock = 2, kStep = 2, kTerms = 2;
  static constexpr int kUnit = panel_format(DType::kBF16).unit;
  static HWY_INLINE I32 vector(const uint8_t* w) { return load_int(w); }
};
// Emulates VDPBF16PS: the odd column first, subnormal numbers flushed to 0.
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

// Emulated by fma, native VDPBF16PS, exact.
extern const PanelKernels kBf16Kernels[3];
constexpr PanelKernels kBf16Kernels[3] = {kernels<PanelBF16>(), kernels<PanelDotBF16>(),
                                          kernels<PanelExactBF16>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* bf16_kernels(Target target, bool exact) {
  return VEERY_FOR_TARGET(target, kBf16Kernels) + (exact ? 2 : uses_bf16_dot(target) ? 1 : 0);
}

}  // namespace veery
#endif

// Microkernels for types with a code book and a scale for 32 elements or no sub-scales: IQ4_XS,
// IQ3, IQ2_XXS, IQ1_S, TQ; also Q8_K.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/codes_32.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/super-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const PanelKernels kCodes32Kernels[8];
constexpr PanelKernels kCodes32Kernels[8] = {kernels<PanelQ8_K>(),
                                             coded_kernels<PanelCodes4, DType::kIQ4_XS>(),
                                             coded_kernels<PanelCodes4, DType::kIQ3_XXS>(),
                                             coded_kernels<PanelCodes4, DType::kIQ3_S>(),
                                             coded_kernels<PanelCodes3<32>, DType::kIQ2_XXS>(),
                                             coded_kernels<PanelCodes3<32>, DType::kIQ1_S>(),
                                             coded_kernels<PanelCodes2, DType::kTQ1_0>(),
                                             coded_kernels<PanelCodes2, DType::kTQ2_0>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* codes_32_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kCodes32Kernels);
  switch (type) {
    case DType::kQ8_K: return table;
    case DType::kIQ4_XS: return table + 1;
    case DType::kIQ3_XXS: return table + 2;
    case DType::kIQ3_S: return table + 3;
    case DType::kIQ2_XXS: return table + 4;
    case DType::kIQ1_S: return table + 5;
    case DType::kTQ1_0: return table + 6;
    case DType::kTQ2_0: return table + 7;
    default: return nullptr;
  }
}

}  // namespace veery
#endif

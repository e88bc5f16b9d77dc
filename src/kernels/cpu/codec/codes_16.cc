// Microkernels for types with a code book and a scale for 16 elements: IQ2_XS, IQ2_S, IQ1_M.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/codes_16.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/super-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const PanelKernels kCodes16Kernels[3];
constexpr PanelKernels kCodes16Kernels[3] = {coded_kernels<PanelCodes3<16>, DType::kIQ2_XS>(),
                                             coded_kernels<PanelCodes3<16>, DType::kIQ2_S>(),
                                             coded_kernels<PanelCodes3<16>, DType::kIQ1_M>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* codes_16_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kCodes16Kernels);
  switch (type) {
    case DType::kIQ2_XS: return table;
    case DType::kIQ2_S: return table + 1;
    case DType::kIQ1_M: return table + 2;
    default: return nullptr;
  }
}

}  // namespace veery
#endif

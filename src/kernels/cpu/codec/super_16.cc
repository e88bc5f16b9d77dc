// Microkernels for K types with a scale for 16 elements: Q2_K, Q3_K, Q6_K.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/super_16.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/super-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const PanelKernels kSuper16Kernels[3];
constexpr PanelKernels kSuper16Kernels[3] = {kernels<PanelQ2_K>(), kernels<PanelQ3_K>(),
                                             kernels<PanelQ6_K>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* super_16_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kSuper16Kernels);
  switch (type) {
    case DType::kQ2_K: return table;
    case DType::kQ3_K: return table + 1;
    case DType::kQ6_K: return table + 2;
    default: return nullptr;
  }
}

}  // namespace veery
#endif

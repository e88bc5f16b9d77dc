// Microkernels for K types with a scale for 32 elements: Q4_K, Q5_K.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/super_32.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/super-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const PanelKernels kSuper32Kernels[2];
constexpr PanelKernels kSuper32Kernels[2] = {kernels<PanelQ4_K>(), kernels<PanelQ5_K>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* super_32_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kSuper32Kernels);
  switch (type) {
    case DType::kQ4_K: return table;
    case DType::kQ5_K: return table + 1;
    default: return nullptr;
  }
}

}  // namespace veery
#endif

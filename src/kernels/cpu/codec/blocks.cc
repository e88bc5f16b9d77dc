// Microkernels for blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4, NVFP4.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/blocks.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

template <typename T, int R>
void direct_one(const std::byte* const* panel, const ActivationGroup& g, int64_t cols,
                Prefetch ahead, float* y) {
  direct<T, kCompiledRows<R>>(BlockLayout<T>(), {bytes_of(*panel), g, cols, ahead, y, R});
}
template <typename T>
void expand_one(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand<T>(BlockLayout<T>(), bytes_of(*panel), cols, expanded);
}

// `Few` is the code type for groups of up to 4 rows, if it differs.
template <typename T, typename Few = T>
constexpr PanelKernels kernels() {
  PanelKernels k = tiles<CodeOf<T>, T::kMin != 0>();
  k.expand = expand_one<T>;
  k.direct[0][0] = direct_one<Few, 1>;
  k.direct[0][1] = direct_one<Few, 2>;
  k.direct[0][2] = direct_one<Few, 4>;
  if (kPairs) k.direct[0][3] = direct_one<T, 8>;
  return k;
}

}  // namespace

extern const PanelKernels kBlockKernels[8];
constexpr PanelKernels kBlockKernels[8] = {
    kernels<PanelQ4_0>(),  kernels<PanelQ4_1>(),
    kernels<PanelQ5_0>(),  kernels<PanelQ5_1>(),
    kernels<PanelQ8_0>(),  kernels<PanelIQ4_NL>(),
    kernels<PanelMXFP4>(), kernels<PanelNVFP4, PanelSignedNVFP4>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* block_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kBlockKernels);
  switch (type) {
    case DType::kQ4_0: return table;
    case DType::kQ4_1: return table + 1;
    case DType::kQ5_0: return table + 2;
    case DType::kQ5_1: return table + 3;
    case DType::kQ8_0: return table + 4;
    case DType::kIQ4_NL: return table + 5;
    case DType::kMXFP4: return table + 6;
    case DType::kNVFP4: return table + 7;
    default: return nullptr;
  }
}

}  // namespace veery
#endif

// Microkernels for Q8_0 panels in three parts (panels/split_panels.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/split.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/blocks-inl.h"
#include "kernels/cpu/codec/split.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

using All = SplitLayout<3>;
using FirstTwo = SplitLayout<2>;

template <int R>
void direct_split(const std::byte* const* parts, const ActivationGroup& g, int64_t cols,
                  Prefetch ahead, float* y) {
  direct<PanelSplitQ8_0, R>(All(), {All::open(parts), g, cols, ahead, y, R});
}
template <int R>
void direct_five_bits(const std::byte* const* parts, const ActivationGroup& g, int64_t cols,
                      Prefetch ahead, float* y) {
  direct<PanelSplitQ5, R>(FirstTwo(), {FirstTwo::open(parts), g, cols, ahead, y, R});
}
void expand_split(const std::byte* const* parts, int64_t cols, std::byte* expanded) {
  expand<PanelSplitQ8_0>(All(), All::open(parts), cols, expanded);
}

constexpr SplitKernels kernels() {
  SplitKernels k;
  k.all = tiles<CodeOf<PanelSplitQ8_0>, false>();
  k.all.parts = kMostParts;
  k.all.expand = expand_split;
  k.all.direct[0][0] = direct_split<1>;
  k.all.direct[0][1] = direct_split<2>;
  k.all.direct[0][2] = direct_split<4>;
  if (kPairs) k.all.direct[0][3] = direct_split<8>;
  k.five_bits[0] = direct_five_bits<1>;
  k.five_bits[1] = direct_five_bits<2>;
  k.five_bits[2] = direct_five_bits<4>;
  if (kPairs) k.five_bits[3] = direct_five_bits<8>;
  return k;
}

}  // namespace

extern const SplitKernels kSplitKernels;
constexpr SplitKernels kSplitKernels = kernels();

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const SplitKernels& split_kernels(Target target) { return VEERY_FOR_TARGET(target, kSplitKernels); }

}  // namespace veery
#endif

// Panels of blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
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
void direct_one(const std::byte* const* panel, const ActivationGroup& g, int64_t cols, Ahead ahead,
                float* y) {
  direct<T, kCompiledRows<R>>(BlockPlaces<T>(), {bytes_of(*panel), g, cols, ahead, y, R});
}
// Of a split panel: its parts, or of two rows only what the first two give.
template <int R>
void direct_split(const std::byte* const* parts, const ActivationGroup& g, int64_t cols,
                  Ahead ahead, float* y) {
  const SplitParts w = {bytes_of(parts[0]), bytes_of(parts[1]), bytes_of(parts[2])};
  direct<PanelSplitQ8_0, R>(SplitPlaces<true>(), {w, g, cols, ahead, y, R});
}
void direct_five_bits(const std::byte* const* parts, const ActivationGroup& g, int64_t cols,
                      Ahead ahead, float* y) {
  const SplitParts w = {bytes_of(parts[0]), bytes_of(parts[1]), nullptr};
  direct<PanelSplitQ5, 2>(SplitPlaces<false>(), {w, g, cols, ahead, y, 2});
}
template <typename T>
void expand_one(const std::byte* panel, int64_t cols, std::byte* expanded) {
  expand<T>(BlockPlaces<T>(), panel, cols, expanded);
}

template <typename T>
constexpr PanelKernels kernels() {
  PanelKernels k = tiles<CodeOf<T>, T::kMin != 0>();
  k.expand = expand_one<T>;
  k.direct[0][0] = direct_one<T, 1>;
  k.direct[0][1] = direct_one<T, 2>;
  k.direct[0][2] = direct_one<T, 4>;
  if (kPairs) k.direct[0][3] = direct_one<T, 8>;
  return k;
}

constexpr PanelKernels split_kernels() {
  PanelKernels k = kernels<PanelQ8_0>();
  k.direct_parts[0] = direct_split<1>;
  k.direct_parts[1] = direct_split<2>;
  k.direct_parts[2] = direct_split<4>;
  if (kPairs) k.direct_parts[3] = direct_split<8>;
  k.direct_two_parts = direct_five_bits;
  return k;
}

}  // namespace

extern const PanelKernels kBlockKernels[7];
constexpr PanelKernels kBlockKernels[7] = {
    kernels<PanelQ4_0>(), kernels<PanelQ4_1>(),   kernels<PanelQ5_0>(), kernels<PanelQ5_1>(),
    split_kernels(),      kernels<PanelIQ4_NL>(), kernels<PanelMXFP4>()};

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
    default: return nullptr;
  }
}

}  // namespace veery
#endif

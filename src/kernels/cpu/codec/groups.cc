// Microkernels for affine groups (MLX). Types with the same number of bits share one instantiation
// for all group sizes and scale types.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/groups.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/codec/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

template <typename T, int kRows>
HWY_NOINLINE void direct_shared(const AffineFormat& format, const Direct<const uint8_t*>& in) {
  direct<T, kRows>(AffineLayout(format), in);
}
template <typename T>
HWY_NOINLINE void expand_shared(const AffineFormat& format, const uint8_t* panel, int64_t cols,
                                std::byte* expanded) {
  expand<T>(AffineLayout(format), panel, cols, expanded);
}

template <DType kType>
using AffineOf = PanelAffine<affine_format(kType).bits>;
template <DType kType, int R>
void direct_of(const std::byte* const* panel, const ActivationGroup& g, int64_t cols,
               Prefetch ahead, float* y) {
  direct_shared<AffineOf<kType>, kCompiledRows<R>>(affine_format(kType),
                                                   {bytes_of(*panel), g, cols, ahead, y, R});
}
template <DType kType>
void expand_of(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand_shared<AffineOf<kType>>(affine_format(kType), bytes_of(*panel), cols, expanded);
}

template <int kIndex>
constexpr PanelKernels kernels() {
  constexpr DType kType = affine_at(kIndex);
  PanelKernels k = tiles<CodeOf<AffineOf<kType>>, true>();
  k.expand = expand_of<kType>;
  k.direct[0][0] = direct_of<kType, 1>;
  k.direct[0][1] = direct_of<kType, 2>;
  k.direct[0][2] = direct_of<kType, 4>;
  if (kPairs) k.direct[0][3] = direct_of<kType, 8>;
  return k;
}
template <int... kIndex>
constexpr AffineTable table(std::integer_sequence<int, kIndex...>) {
  return {{kernels<kIndex>()...}};
}

}  // namespace

extern const AffineTable kGroupKernels;
constexpr AffineTable kGroupKernels = table(std::make_integer_sequence<int, kAffineTypes>());

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* group_kernels(Target target, DType type) {
  return is_affine(type) ? &VEERY_FOR_TARGET(target, kGroupKernels).at(type) : nullptr;
}

}  // namespace veery
#endif

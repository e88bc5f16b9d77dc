// multiply-inl.h: the loops around the microkernels: panels times groups of quantised activations
// (rows-inl.h), then the epilogue. Implemented in multiply.cc.
#if defined(VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
#endif

#include "kernels/cpu/linear/epilogue.h"
#include "kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Multiplies all rows, whose quantised activations are at `base`, with `panels` of output i. Rows
/// are blocked for the L2 cache, panels are taken a few at a time. `scratch` has
/// Product::expanded_bytes().
void multiply_panels(const Product& p, std::byte* base, std::byte* scratch, int i, Share panels,
                     const Epilogue& epilogue);

/// Multiplies all rows with all panels of all outputs. Each worker starts with its own share, then
/// steals items that other workers have not begun.
void multiply_shared(const Product& p, std::byte* base, const Worker& worker,
                     const Epilogue& epilogue);

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H

// multiply-inl.h: panels times rows in prepared groups (rows-inl.h), and what follows
// (multiply.cc).
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

/// All rows, which lie prepared at `base`, times some panels of output i, a few at a time, the rows
/// in blocks that stay in the second level cache. `scratch` has Product::expanded_bytes().
void multiply_panels(const Product& p, std::byte* base, std::byte* scratch, int i, Share panels,
                     const Epilogue& epilogue);

/// All rows times all panels of all outputs, by all workers: each begins with its own share, then
/// takes what others have not begun.
void multiply_shared(const Product& p, std::byte* base, const Worker& worker,
                     const Epilogue& epilogue);

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H

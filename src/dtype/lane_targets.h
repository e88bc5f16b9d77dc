// lane_targets.h: compiles the including file for AVX2, AVX-512 and the baseline by means of
// Highway's foreach_target.h. HWY_TARGET_INCLUDE must be defined before.

// No include guard: Highway includes the including file, and thereby this one, again for each
// target.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
#include <hwy/foreach_target.h>
//
#include "dtype/target-inl.h"

#ifndef VEERY_LANE_COPIES
#include <hwy/targets.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace veery {

/// Calls the functions of those wider targets that this machine supports, and the one of the
/// baseline, and returns their results, the widest first. Functions of other targets are not
/// called.
template <typename Copy>
std::vector<Copy> supported_copies(std::initializer_list<std::pair<int64_t, Copy (*)()>> wider,
                                   Copy (*baseline)()) {
  std::vector<Copy> copies;
  for (const auto& [target, copy] : wider)
    if ((hwy::SupportedTargets() & target) != 0) copies.push_back(copy());
  copies.push_back(baseline());
  return copies;
}

}  // namespace veery

// VEERY_LANE_COPIES(NAME): the results of NAME() of each supported target, the widest first.
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2
#define VEERY_LANE_COPIES(NAME) \
  supported_copies({{HWY_AVX3, N_AVX3::NAME}, {HWY_AVX2, N_AVX2::NAME}}, HWY_NAMESPACE::NAME)
#else
#define VEERY_LANE_COPIES(NAME) supported_copies({}, HWY_NAMESPACE::NAME)
#endif
#endif

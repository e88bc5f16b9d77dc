// lane_targets.h: compiles what includes it for AVX2, AVX-512 and the baseline, as Highway's
// foreach_target.h does, which it includes. HWY_TARGET_INCLUDE must be set before.

// No include guard: Highway includes the including file, and so this one, again for each target.
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

/// What the functions of the targets of Highway that this machine can run return, and that of the
/// baseline. Those of other targets are not entered.
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

// VEERY_LANE_COPIES(NAME): a vector of what NAME() of each target returns, the widest first.
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2
#define VEERY_LANE_COPIES(NAME) \
  supported_copies({{HWY_AVX3, N_AVX3::NAME}, {HWY_AVX2, N_AVX2::NAME}}, HWY_NAMESPACE::NAME)
#else
#define VEERY_LANE_COPIES(NAME) supported_copies({}, HWY_NAMESPACE::NAME)
#endif
#endif

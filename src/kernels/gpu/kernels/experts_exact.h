// experts_exact.h: mixtures of experts with sequential fma accumulation (gemm_exact.h).
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/expert_params.h"

namespace veery::gpu {

namespace key {

/// `bf16`: as in gemm_exact().
constexpr KernelKey experts_exact(bool bf16) {
  return of(Family::kExpertsExact, 0, RowClass::kMany, bf16);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/experts.h"
#include "kernels/gpu/kernels/linear/gemm_exact.h"

namespace veery::gpu {

/// block_x() selects two panels, block_y() a group of pairs.
template <bool kFlushed>
VEERY_GPU void experts_exact(const VEERY_THREAD ExpertGemmParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  if (block_y() >= *a.pairs.groups || 2 * block_x() >= panel_count(a.weight[0])) return;
  const PairGroup group = group_at(a.pairs, block_y());
  const VEERY_DEVICE int32_t* order = a.pairs.order + group.first;
  const auto weight_of = [&](int i) { return expert_weight(a, i, group.expert); };
  const int output = block_x() * 32 + lane();
  for (int first = 0; first < group.count; first += kGemmExactRows) {
    GemmExact<kGemmExactRows, kFlushed> product(a.act, [&](int r) {
      return order[first + r < group.count ? first + r : group.count - 1] / a.pairs_per_row;
    } VEERY_CONTEXT_ARG);
    float y[kGemmExactRows], up[kGemmExactRows];
    product.multiply_all(a.gated != 0 ? 2 : 1, weight_of, block_x(), y, up);
    if (output >= a.weight[0].rows) continue;
    VEERY_UNROLL(8)
    for (int r = 0; r < kGemmExactRows; ++r)
      if (first + r < group.count)
        store_pair(a, group.expert, order[first + r], output, y[r], up[r]);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_EXPERTS_EXACT_KERNELS(X)                                         \
  X(kShared, experts_exact, ExpertGemmParams, 32, 8, key::experts_exact(false),    \
    (experts_exact<false>))                                                        \
  X(kMetal, experts_exact_bf16, ExpertGemmParams, 32, 0, key::experts_exact(true), \
    (experts_exact<true>))

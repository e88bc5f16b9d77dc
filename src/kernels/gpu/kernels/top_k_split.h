// top_k_split.h: top_k() in three launches, for devices on which a block reads only what earlier
// launches have written. One block finishes a row.
#pragma once

#if defined(VEERY_METAL_CODE)
#include "kernels/gpu/kernels/top_k.h"

namespace veery::gpu {

VEERY_GPU void top_k_groups(const VEERY_THREAD TopKParams& a VEERY_CONTEXT) {
  find_groups(a, [](int64_t, int, int) {} VEERY_CONTEXT_ARG);
}
VEERY_GPU void top_k_sums(const VEERY_THREAD TopKParams& a VEERY_CONTEXT) {
  const int64_t r = block_y();
  if (r >= a.run.count(a.values.rows)) return;
  sum_and_find(a, r,
               reinterpret_cast<VEERY_SHARED uint64_t*>(shared_memory() + TopKSmem::kKeys)
                   VEERY_CONTEXT_ARG);
}
VEERY_GPU void top_k_select(const VEERY_THREAD TopKParams& a VEERY_CONTEXT) {
  const int64_t r = block_y();
  if (r >= a.run.count(a.values.rows)) return;
  finish_row(a, r,
             reinterpret_cast<VEERY_SHARED uint64_t*>(shared_memory() + TopKSmem::kKeys)
                 VEERY_CONTEXT_ARG);
}

}  // namespace veery::gpu
#endif  // VEERY_METAL_CODE

#define VEERY_GPU_TOP_K_SPLIT_KERNELS(X)                    \
  VEERY_GPU_SINGLE(X, kMetal, top_k_sums, TopKParams, 1024) \
  VEERY_GPU_SINGLE(X, kMetal, top_k_select, TopKParams, 1024)

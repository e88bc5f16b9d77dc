// top_k_parted.h: the kernels of top_k() where blocks see what others have written only in the
// launches behind: a row is finished by a block of its own.
#pragma once
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

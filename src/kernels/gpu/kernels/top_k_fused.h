// top_k_fused.h: top_k() in two launches, for devices on which the last block of a row reads what
// its other blocks have written (kBlocksExchange). In a chain, biases and penalties are applied
// first.
#pragma once

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/chain_sample.h"
#include "kernels/gpu/kernels/top_k.h"

namespace veery::gpu {

VEERY_GPU void top_k_groups(const TopKParams& a) {
  find_groups(a, [&](int64_t r, int begin, int end) {
    if (a.lists == nullptr) return;
    auto* ids = reinterpret_cast<int32_t*>(shared_memory() + TopKSmem::kKeys);
    change_logits(a.states[r], a.lists[r], a.x.row(r), begin, end, ids);
  });
}

/// Returns whether this block is the last of its row to arrive.
VEERY_GPU bool is_last_of_row(const TopKParams& a, int64_t r, int32_t* last) {
  sync_block();
  if (thread() == 0)
    *last = count_arrival_on_device(a.arrived + 2 * r + 1) + 1 == static_cast<uint32_t>(blocks_x());
  sync_block();
  return *last != 0;
}

VEERY_GPU void top_k(const TopKParams& a) {
  wait_for_dependencies();
  const int64_t r = block_y();
  if (r >= a.run.count(a.values.rows)) return;
  auto* keys = reinterpret_cast<uint64_t*>(shared_memory() + TopKSmem::kKeys);
  auto* last = reinterpret_cast<int32_t*>(shared_memory() + TopKSmem::kLast);
  sum_and_find(a, r, keys);
  if (is_last_of_row(a, r, last)) finish_row(a, r, keys);
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_TOP_K_FUSED_KERNELS(X) VEERY_GPU_SINGLE(X, kCuda, top_k, TopKParams, 1024)

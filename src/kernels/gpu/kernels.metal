// The entry points of Metal, in its shading language (kernel_list.h): all kernels except those that
// need asynchronous copies, tensor cores or thread blocks that see each other's writes.
#include "kernels/gpu/dialect/compat.h"
#include "kernels/gpu/machine/kernel_list.h"
#include "kernels/gpu/kernels/attention/attend_f64.h"
#include "kernels/gpu/kernels/attention/attend_general.h"
#include "kernels/gpu/kernels/attention/choose_positions.h"
#include "kernels/gpu/kernels/cast.h"
#include "kernels/gpu/kernels/chain_advance.h"
#include "kernels/gpu/kernels/conv1d.h"
#include "kernels/gpu/kernels/experts_exact.h"
#include "kernels/gpu/kernels/linear/gemm_simdgroup.h"
#include "kernels/gpu/kernels/linear/gemv_simdgroup.h"
#include "kernels/gpu/kernels/peak_rates.h"
#include "kernels/gpu/kernels/position_scale.h"
#include "kernels/gpu/kernels/rope.h"
#include "kernels/gpu/kernels/rope_angles.h"
#include "kernels/gpu/kernels/row_ops.h"
#include "kernels/gpu/kernels/rows.h"
#include "kernels/gpu/kernels/scan.h"
#include "kernels/gpu/kernels/slstm.h"
#include "kernels/gpu/kernels/top_k_split.h"

namespace veery::gpu {

#if !defined(VEERY_EMULATED)  // tests/support/metal_kernels.cc
template <typename A>
VEERY_GPU A copied(constant A& a) {
  return a;
}
#define VEERY_MEMORY [[threadgroup(0)]]
#endif

}  // namespace veery::gpu

#define VEERY_GPU_IN(...) __VA_ARGS__
#define VEERY_GPU_KERNEL(name, params, threads, least_blocks, key, function)                              \
  [[kernel, max_total_threads_per_threadgroup(threads)]] void veery_##name(               \
      constant veery::gpu::params& a [[buffer(0)]],                                    \
      threadgroup uint8_t* memory VEERY_MEMORY,                                     \
      uint thread_index [[thread_index_in_threadgroup]],                                  \
      uint3 block [[threadgroup_position_in_grid]],                                       \
      uint3 size [[threads_per_threadgroup]], uint3 blocks [[threadgroups_per_grid]]) {   \
    using namespace veery::gpu;                                                           \
    const veery::gpu::params own = copied(a);                                          \
    const ThreadContext context = {static_cast<int>(block.x),  static_cast<int>(block.y),          \
                          static_cast<int>(block.z),  static_cast<int>(blocks.x),         \
                          static_cast<int>(thread_index), static_cast<int>(size.x), memory}; \
    VEERY_GPU_IN function(own, context);                                                     \
  }
VEERY_GPU_METAL_KERNELS(VEERY_GPU_KERNEL)

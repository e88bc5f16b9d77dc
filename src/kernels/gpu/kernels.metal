// The entry points of Metal, in its shading language: all kernels except those that need
// asynchronous copies, tensor cores or thread blocks that see each other's writes.
#define VEERY_GPU_CODE
#define VEERY_METAL_CODE
#include "kernels/gpu/dialect/compat.h"
#include "kernels/gpu/kernels/all.h"

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
#define VEERY_GPU_KERNEL(set, name, params, threads, least_blocks, key, function)                     \
  VEERY_GPU_IF_METAL(set, [[kernel, max_total_threads_per_threadgroup(threads)]] void veery_##name(   \
      constant veery::gpu::params& a [[buffer(0)]],                                                   \
      threadgroup uint8_t* memory VEERY_MEMORY,                                                       \
      uint thread_index [[thread_index_in_threadgroup]],                                              \
      uint3 block [[threadgroup_position_in_grid]],                                                   \
      uint3 size [[threads_per_threadgroup]], uint3 blocks [[threadgroups_per_grid]]) {               \
    using namespace veery::gpu;                                                                       \
    const veery::gpu::params own = copied(a);                                                         \
    const ThreadContext context = {static_cast<int>(block.x),  static_cast<int>(block.y),             \
                          static_cast<int>(block.z),  static_cast<int>(blocks.x),                     \
                          static_cast<int>(thread_index), static_cast<int>(size.x), memory};          \
    VEERY_GPU_IN function(own, context);                                                              \
  })
VEERY_GPU_KERNELS(VEERY_GPU_KERNEL)

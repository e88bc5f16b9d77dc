// The entry points of all kernels on CUDA.
#define VEERY_GPU_CODE
#define VEERY_CUDA_CODE
#include "kernels/gpu/kernels/all.h"

#define VEERY_GPU_IN(...) __VA_ARGS__
#define VEERY_GPU_GLOBAL(set, name, params, threads, least_blocks, key, function)       \
  VEERY_GPU_IF_CUDA(                                                                    \
      set, extern "C" __global__ void __launch_bounds__(threads, least_blocks)          \
               veery_##name(const __grid_constant__ veery::gpu::params p) {             \
                 using namespace veery::gpu; /* NOLINT(google-build-using-namespace) */ \
                 VEERY_GPU_IN function(p);                                              \
               })
VEERY_GPU_KERNELS(VEERY_GPU_GLOBAL)

// All kernels, as CUDA has them (kernel_list.h).
#include "kernels/gpu/functions/angles.h"
#include "kernels/gpu/functions/attend_f64.h"
#include "kernels/gpu/functions/attend_tiles.h"
#include "kernels/gpu/functions/attend_wide.h"
#include "kernels/gpu/functions/conv1d.h"
#include "kernels/gpu/functions/experts_row.h"
#include "kernels/gpu/kernel_list.h"
#include "kernels/gpu/functions/linear_row.h"
#include "kernels/gpu/functions/linear_tiles.h"
#include "kernels/gpu/functions/row_ops.h"
#include "kernels/gpu/functions/scan.h"
#include "kernels/gpu/functions/slstm.h"
#include "kernels/gpu/functions/walk.h"

#define VEERY_GPU_IN(...) __VA_ARGS__
#define VEERY_GPU_GLOBAL(name, arguments, threads, function)               \
  extern "C" __global__ void __launch_bounds__(threads)                    \
      veery_##name(const __grid_constant__ veery::gpu::arguments a) {      \
    using namespace veery::gpu; /* NOLINT(google-build-using-namespace) */ \
    VEERY_GPU_IN function(a);                                              \
  }
VEERY_GPU_KERNELS(VEERY_GPU_GLOBAL)

// The entry points of all kernels on CUDA (kernel_list.h).
#include "kernels/gpu/kernels/attention/attend_decode.h"
#include "kernels/gpu/kernels/attention/attend_f64.h"
#include "kernels/gpu/kernels/attention/attend_general.h"
#include "kernels/gpu/kernels/attention/attend_prefill.h"
#include "kernels/gpu/kernels/attention/attend_prefill_mma.h"
#include "kernels/gpu/kernels/attention/attend_ragged.h"
#include "kernels/gpu/kernels/attention/choose_positions.h"
#include "kernels/gpu/kernels/attention/qkv_rope_rows.h"
#include "kernels/gpu/kernels/cast.h"
#include "kernels/gpu/kernels/conv1d.h"
#include "kernels/gpu/kernels/experts_exact.h"
#include "kernels/gpu/kernels/experts_gemv.h"
#include "kernels/gpu/kernels/linear/gemm_mma.h"
#include "kernels/gpu/kernels/linear/gemm_skinny.h"
#include "kernels/gpu/kernels/linear/gemm_wgmma_bf16.h"
#include "kernels/gpu/kernels/linear/gemm_wgmma_splitk.h"
#include "kernels/gpu/kernels/linear/gemv.h"
#include "kernels/gpu/kernels/linear/quantize_x_groups.h"
#include "kernels/gpu/kernels/peak_rates.h"
#include "kernels/gpu/kernels/relaxed/attend_flash.h"
#include "kernels/gpu/kernels/relaxed/bf16_rows.h"
#include "kernels/gpu/kernels/relaxed/dequantize.h"
#include "kernels/gpu/kernels/position_scale.h"
#include "kernels/gpu/kernels/rope.h"
#include "kernels/gpu/kernels/rope_angles.h"
#include "kernels/gpu/kernels/row_ops.h"
#include "kernels/gpu/kernels/rows.h"
#include "kernels/gpu/kernels/scan.h"
#include "kernels/gpu/kernels/slstm.h"
#include "kernels/gpu/kernels/top_k_fused.h"
#include "kernels/gpu/machine/kernel_list.h"

#define VEERY_GPU_IN(...) __VA_ARGS__
#define VEERY_GPU_GLOBAL(name, params, threads, least_blocks, key, function)                  \
  extern "C" __global__ void __launch_bounds__(threads, least_blocks)                         \
      veery_##name(const __grid_constant__ veery::gpu::params p) {                            \
    using namespace veery::gpu; /* NOLINT(google-build-using-namespace) */                    \
    VEERY_GPU_IN function(p);                                                                 \
  }
VEERY_GPU_SHARED_KERNELS(VEERY_GPU_GLOBAL)
VEERY_GPU_CUDA_ONLY_KERNELS(VEERY_GPU_GLOBAL)
VEERY_GPU_RELAXED_KERNELS(VEERY_GPU_GLOBAL)
// GPUs without wgmma lack these kernels: Machine::has().
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
VEERY_GPU_WGMMA_KERNELS(VEERY_GPU_GLOBAL)
#endif

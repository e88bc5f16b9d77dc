// All kernels, as CUDA has them (kernel_list.h).
#include <string_view>
#include <type_traits>

#include "kernels/gpu/kernels/rope_angles.h"
#include "kernels/gpu/kernels/attention/attend_prefill_mma.h"
#include "kernels/gpu/kernels/attention/attend_f64.h"
#include "kernels/gpu/kernels/attention/attend_ragged.h"
#include "kernels/gpu/kernels/attention/attend_decode.h"
#include "kernels/gpu/kernels/attention/attend_prefill.h"
#include "kernels/gpu/kernels/attention/attend_general.h"
#include "kernels/gpu/kernels/attention/choose_positions.h"
#include "kernels/gpu/kernels/attention/qkv_rope_rows.h"
#include "kernels/gpu/kernels/conv1d.h"
#include "kernels/gpu/kernels/experts_gemv.h"
#include "kernels/gpu/kernels/linear/gemm_exact.h"
#include "kernels/gpu/kernels/peak_rates.h"
#include "kernels/gpu/kernels/linear/gemm_wgmma_bf16.h"
#include "kernels/gpu/kernels/linear/gemm_wgmma_splitk.h"
#include "kernels/gpu/kernels/linear/gemm_skinny.h"
#include "kernels/gpu/kernels/linear/gemv.h"
#include "kernels/gpu/kernels/linear/gemm_mma.h"
#include "kernels/gpu/kernels/linear/quantize_x_groups.h"
#include "kernels/gpu/kernels/relaxed/attend_flash.h"
#include "kernels/gpu/kernels/relaxed/dequantize.h"
#include "kernels/gpu/kernels/relaxed/bf16_rows.h"
#include "kernels/gpu/kernels/row_ops.h"
#include "kernels/gpu/kernels/scan.h"
#include "kernels/gpu/kernels/slstm.h"
#include "kernels/gpu/kernels/top_k_fused.h"
#include "kernels/gpu/kernel_list.h"

#define VEERY_GPU_IN(...) __VA_ARGS__
// Blocks of threads that a processor is to have at least; 0: nvcc finds a number, and spares
// registers, even if it has to spill, where one block has all of the shared memory.
template <typename Arguments>
constexpr int least_blocks(std::string_view name, int threads) {
  if (name.find("_fma") != std::string_view::npos) return 8;  // with a ring each
  if (std::is_same_v<Arguments, veery::gpu::LinearArguments> &&
      (threads == veery::gpu::GroupPlan::most_threads(true) ||
       threads == veery::gpu::GroupPlan::most_threads(false) ||
       threads == veery::gpu::tile_threads(veery::gpu::kBF16, true)))
    return 1;
  if (threads == veery::gpu::RowPlan::kExpertThreads &&
      std::is_same_v<Arguments, veery::gpu::ExpertArguments>)
    return 2;
  if (std::is_same_v<Arguments, veery::gpu::PrepareTilesArguments>) return threads == 128 ? 3 : 2;
  return threads == veery::gpu::RowPlan::kThreads ? 1 : 0;
}

#define VEERY_GPU_GLOBAL(name, arguments, threads, function)               \
  extern "C" __global__ void __launch_bounds__(                            \
      threads, least_blocks<veery::gpu::arguments>(#name, threads))        \
      veery_##name(const __grid_constant__ veery::gpu::arguments a) {      \
    using namespace veery::gpu; /* NOLINT(google-build-using-namespace) */ \
    VEERY_GPU_IN function(a);                                              \
  }
VEERY_GPU_EVERYWHERE(VEERY_GPU_GLOBAL)
VEERY_GPU_RELAXED(VEERY_GPU_GLOBAL)
// What other processors have not got is not there for them: Machine::has().
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
VEERY_GPU_WARPGROUPS(VEERY_GPU_GLOBAL)
#endif

// experts_gemv.h: mixtures of experts for few pairs: each pair is a GEMV (gemv.h).
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/expert_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey experts_gemv(WeightFormat format, bool gated) {
  return of(Family::kExpertsGemv, format, RowClass::kOne, gated);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/experts.h"
#include "kernels/gpu/kernels/linear/gemv.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

/// Each pair has its own thread blocks; their weights arrive in ring buffers filled by bulk copies.
/// Outputs are not clamped, and gates are applied after the products.
template <WeightFormat kFormat, int kParts>
VEERY_GPU void experts_gemv(const ExpertGemmParams& a) {
  wait_for_dependencies();
  const int64_t pair = block_y();
  if (pair >= a.run.count(a.rows) * a.used) return;
  const int expert = a.pairs.expert[pair];
  GemmParams own{};
  own.run = a.run;
  own.act = a.act;
  own.act.data += pair / a.pairs_per_row * a.act.stride;
  own.rows = 1;
  for (int i = 0; i < kParts; ++i) {
    own.weight[i] = expert_weight(a, i, expert);
    if (a.bias[i] != nullptr) own.bias[i] = a.bias[i] + int64_t{expert} * a.weight[i].rows;
  }
  own.weights = kParts;
  own.gated = kParts - 1;
  own.gate = a.activation;
  own.scale = 1;
  own.out = {a.out + pair * a.weight[0].rows, a.weight[0].rows, 1, a.weight[0].rows};
  own.max_smem = a.max_smem;
  Gemv<kFormat, 1, GemvSmem::kExpertWarps>(own).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_EXPERTS_GEMV(X, set, name, format)                                             \
  X(set, experts_gemv_##name, ExpertGemmParams, (veery::gpu::GemvSmem::kExpertThreads), 2,       \
    key::experts_gemv(format, false), (experts_gemv<format, 1>))                                 \
  X(set, experts_gemv_gated_##name, ExpertGemmParams, (veery::gpu::GemvSmem::kExpertThreads), 2, \
    key::experts_gemv(format, true), (experts_gemv<format, 2>))
#define VEERY_GPU_EXPERTS_GEMV_KERNELS(X)                    \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_EXPERTS_GEMV, X, kCuda) \
  VEERY_GPU_EXPERTS_GEMV(X, kCuda, bf16, kBF16)

// kernels.h: the kernels of kernel_list.h by id and by descriptor.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "kernels/gpu/machine/kernel_key.h"
#include "kernels/gpu/machine/kernel_list.h"
#include "kernels/gpu/params/attend_params.h"
#include "kernels/gpu/params/chain_params.h"
#include "kernels/gpu/params/expert_params.h"
#include "kernels/gpu/params/peak_rate_params.h"
#include "kernels/gpu/params/recurrence_params.h"
#include "kernels/gpu/params/relaxed_params.h"
#include "kernels/gpu/params/row_params.h"
#include "kernels/gpu/params/top_k_params.h"

namespace veery::gpu {

#define VEERY_GPU_ID(name, params, threads, blocks, key, function) name,
enum class KernelId : int {
  VEERY_GPU_CUDA_KERNELS(VEERY_GPU_ID) VEERY_GPU_METAL_ONLY_KERNELS(VEERY_GPU_ID) kCount,
  kMatrixProduct = kCount  ///< no kernel of ours: a MatrixProduct by a library of the machine
};
#undef VEERY_GPU_ID

/// Which machines have a kernel.
enum class KernelSet : uint8_t { kShared, kCuda, kWgmma, kRelaxed, kMetal };

struct KernelInfo {
  std::string_view name;
  KernelKey key;
  KernelSet set;
};
#define VEERY_GPU_INFO(set, name, key) {#name, key, KernelSet::set},
#define VEERY_GPU_SHARED(name, params, threads, blocks, key, f) VEERY_GPU_INFO(kShared, name, key)
#define VEERY_GPU_CUDA(name, params, threads, blocks, key, f) VEERY_GPU_INFO(kCuda, name, key)
#define VEERY_GPU_WGMMA(name, params, threads, blocks, key, f) VEERY_GPU_INFO(kWgmma, name, key)
#define VEERY_GPU_RELAXED(name, params, threads, blocks, key, f) VEERY_GPU_INFO(kRelaxed, name, key)
#define VEERY_GPU_METAL(name, params, threads, blocks, key, f) VEERY_GPU_INFO(kMetal, name, key)
/// Indexed by KernelId.
inline constexpr KernelInfo kKernels[] = {
    VEERY_GPU_SHARED_KERNELS(VEERY_GPU_SHARED)     //
    VEERY_GPU_CUDA_ONLY_KERNELS(VEERY_GPU_CUDA)    //
    VEERY_GPU_WGMMA_KERNELS(VEERY_GPU_WGMMA)       //
    VEERY_GPU_RELAXED_KERNELS(VEERY_GPU_RELAXED)   //
    VEERY_GPU_METAL_ONLY_KERNELS(VEERY_GPU_METAL)  //
};
#undef VEERY_GPU_INFO
#undef VEERY_GPU_SHARED
#undef VEERY_GPU_CUDA
#undef VEERY_GPU_WGMMA
#undef VEERY_GPU_RELAXED
#undef VEERY_GPU_METAL
static_assert(std::size(kKernels) == static_cast<size_t>(KernelId::kCount));

constexpr const KernelInfo& kernel_info(KernelId kernel) {
  return kKernels[static_cast<size_t>(kernel)];
}
/// The kernel of a descriptor; nothing if kernel_list.h has none.
constexpr std::optional<KernelId> find_kernel(const KernelKey& key) {
  if (key == key::single()) return {};
  for (size_t i = 0; i < std::size(kKernels); ++i)
    if (kKernels[i].key == key) return static_cast<KernelId>(i);
  return {};
}
/// Throws kBug if there is none.
KernelId kernel_for(const KernelKey& key);
std::string_view name(KernelId kernel);

inline constexpr WeightFormat kQuantizedFormats[] = {kQ8, kQ8M,   kQ4,    kQ4M,  kK4M,  kK8M,
                                                     kK8, kK8M16, kMXFP4, kQ4MW, kQ8MW, kNVFP4};
/// For static_asserts: whether there is a kernel for each quantised weight format.
template <typename KeyOf>
consteval bool for_quantized_formats(const KeyOf& key_of) {
  for (const WeightFormat format : kQuantizedFormats)
    if (!find_kernel(key_of(format))) return false;
  return true;
}

}  // namespace veery::gpu

// kernels.h: all kernels by id and by descriptor.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "kernels/gpu/kernels/all.h"

namespace veery::gpu {

#define VEERY_GPU_ID(set, name, params, threads, blocks, key, function) name,
enum class KernelId : int {
  VEERY_GPU_KERNELS(VEERY_GPU_ID) kCount,
  kMatrixProduct = kCount  ///< no kernel of ours: a MatrixProduct by a library of the machine
};
#undef VEERY_GPU_ID

/// Which machines have a kernel.
enum class KernelSet : uint8_t {
  kShared,   ///< CUDA and Metal
  kCuda,     ///< CUDA: asynchronous copies, tensor cores, blocks that see each other's writes
  kWgmma,    ///< CUDA with wgmma (compute capability 9.0)
  kRelaxed,  ///< CUDA with --relaxed: kernels whose bits are not those of the CPU
  kMetal,    ///< Metal
};

struct KernelInfo {
  std::string_view name;
  KernelKey key;
  KernelSet set;
};
#define VEERY_GPU_INFO(set, name, params, threads, blocks, key, function) \
  {#name, key, KernelSet::set},
/// Indexed by KernelId.
inline constexpr KernelInfo kKernels[] = {VEERY_GPU_KERNELS(VEERY_GPU_INFO)};
#undef VEERY_GPU_INFO
static_assert(std::size(kKernels) == static_cast<size_t>(KernelId::kCount));

constexpr const KernelInfo& kernel_info(KernelId kernel) {
  return kKernels[static_cast<size_t>(kernel)];
}
/// The kernel of a descriptor; nothing if there is none.
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

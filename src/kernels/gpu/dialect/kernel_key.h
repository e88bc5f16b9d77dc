// kernel_key.h: typed descriptors, by which launches choose kernels. The file of a kernel with
// variants has a function of namespace `key` that makes its descriptors.
#pragma once
#include "kernels/gpu/dialect/compat.h"
#include "kernels/gpu/dialect/families.h"

namespace veery::gpu {

/// The number of activation rows (or pairs of row and expert) that a kernel multiplies at a time,
/// in families that have kernels for several.
enum class RowClass : uint8_t { kAny, kOne, kEight, kSixteen, kThirtyTwo, kMany };

/// Element type of the KV cache, and whether tensor cores multiply it.
enum class CacheType : uint8_t { kBF16, kF16, kF32, kBF16Mma };

/// Identifies one kernel.
struct KernelKey {
  Family family = Family::kSingle;
  uint8_t format = 0;  ///< a type of weights, activations or the cache, or a form, by family
  RowClass rows = RowClass::kAny;
  uint8_t variant = 0;  ///< distinguishes further kernels of a family
};
VEERY_GPU_HOST constexpr bool operator==(KernelKey a, KernelKey b) {
  return a.family == b.family && a.format == b.format && a.rows == b.rows && a.variant == b.variant;
}

namespace key {

constexpr KernelKey of(Family family, int format, RowClass rows, int variant) {
  return {family, static_cast<uint8_t>(format), rows, static_cast<uint8_t>(variant)};
}
/// The descriptor of kernels without variants, which are launched by their KernelId.
constexpr KernelKey single() { return {}; }

}  // namespace key
}  // namespace veery::gpu

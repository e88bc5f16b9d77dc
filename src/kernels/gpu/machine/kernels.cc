#include "kernels/gpu/machine/kernels.h"

#include "base/error.h"

namespace veery::gpu {
namespace {

consteval bool keys_are_distinct() {
  for (size_t i = 0; i < std::size(kKernels); ++i)
    for (size_t j = i + 1; j < std::size(kKernels); ++j)
      if (kKernels[i].key == kKernels[j].key && kKernels[i].key != key::single()) return false;
  return true;
}
static_assert(keys_are_distinct());

}  // namespace

KernelId kernel_for(const KernelKey& key) {
  const std::optional<KernelId> kernel = find_kernel(key);
  VEERY_CHECK(kernel.has_value());
  return *kernel;
}

std::string_view name(KernelId kernel) {
  return kernel == KernelId::kMatrixProduct ? "matrix_product" : kernel_info(kernel).name;
}

}  // namespace veery::gpu

#include "kernels/cpu/codec/panel_kernels.h"

#include "kernels/cpu/codec/split.h"
#include "kernels/cpu/panels/split_panels.h"

namespace veery {

const PanelKernels* panel_kernels(Target target, DType type, uint8_t format, bool exact) {
  if (format == kSplitFormat)
    return exact ? exact_split_kernels(target) : &split_kernels(target).all;
  if (exact) return exact_kernels(target, type);
  if (type == DType::kBF16) return bf16_kernels(target, exact);
  for (const auto family : {block_kernels, group_kernels, super_16_kernels, super_32_kernels,
                            codes_32_kernels, codes_16_kernels})
    if (const PanelKernels* k = family(target, type)) return k;
  return float_kernels(target, type);
}

}  // namespace veery

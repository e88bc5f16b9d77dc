// split.h: products of panels of Q8_0 in three parts (panels/split_panels.h).
#pragma once
#include "kernels/cpu/codec/panel_kernels.h"

namespace veery {

struct SplitKernels {
  PanelKernels all;  ///< the products of Q8_0
  /// One panel of the first two parts, a matrix with an eighth of the values; groups of 1, 2, 4
  /// and, where there are the registers for it, 8 rows.
  DirectFn five_bits[4] = {};
};
const SplitKernels& split_kernels(Target target);

}  // namespace veery

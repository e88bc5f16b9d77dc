// split.h: products of panels of Q8_0 in three parts (panels/split_panels.h).
#pragma once
#include "kernels/cpu/codec/panel_kernels.h"

namespace veery {

struct SplitKernels {
  PanelKernels all;  ///< the products of Q8_0
  /// Two rows and the first two parts: a matrix with an eighth of the values.
  DirectFn two_rows_five_bits = nullptr;
};
const SplitKernels& split_kernels(Target target);

}  // namespace veery

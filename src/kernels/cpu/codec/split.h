// split.h: microkernels for Q8_0 panels in three parts (panels/split_panels.h).
#pragma once
#include "kernels/cpu/codec/panel_kernels.h"

namespace veery {

struct SplitKernels {
  PanelKernels all;  ///< all three parts: the results of Q8_0
  /// One panel, upper and middle part only: the codes divided by 8. For groups of 1, 2, 4 and (if
  /// there are enough registers, else null) 8 rows.
  DirectFn five_bits[4] = {};
};
const SplitKernels& split_kernels(Target target);

}  // namespace veery

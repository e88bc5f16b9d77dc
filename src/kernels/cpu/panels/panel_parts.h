// panel_parts.h: addresses of the panels of a weight in any format.
#pragma once
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/dispatch.h"

namespace veery {

/// Returns the parts of a weight; formats with a single part leave the others null.
inline std::array<PanelPart, kMostParts> panel_parts(const Operand& weight) {
  if (weight.format == kSplitFormat)
    return SplitPanels(weight.rows, weight.cols).parts(weight.data);
  return {{{weight.data, weight.stride}}};
}

}  // namespace veery

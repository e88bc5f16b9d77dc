// panel_parts.h: where the panels of a weight lie, whatever their format.
#pragma once
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/dispatch.h"

namespace veery {

inline std::array<PanelPart, kMostParts> panel_parts(const Operand& weight) {
  if (weight.format == kSplitFormat)
    return SplitPanels(weight.rows, weight.cols).parts(weight.data);
  return {{{weight.data, weight.stride}}};
}

}  // namespace veery

// panel_kernels.h: what the linear kernels are made of: products of one panel with a group of rows.
#pragma once
#include "kernels/cpu/activations/activations.h"
#include "kernels/kernels.h"

namespace veery {

/// What is fetched while panels are read.
struct Ahead {
  int64_t bytes = 0;  ///< from where a panel is read; 0: nothing is fetched
  int64_t skip = 0;   ///< from the end of a panel to the one that is read in its place next
};
/// y[panel][8][16]: the w rows of `group` times some panels. `panels`: the parts of each, one panel
/// after the other.
using DirectFn = void (*)(const std::byte* const* panels, const ActivationGroup& group,
                          int64_t cols, Ahead ahead, float* y);
/// Writes a packed panel, given by its parts, in the form that the tile functions take.
using ExpandFn = void (*)(const std::byte* const* panel, int64_t cols, std::byte* expanded);
/// y[8][16] of a full group and an expanded panel.
using TileFn = void (*)(const std::byte* expanded, const ActivationGroup& group, int64_t cols,
                        float* y);
/// y[2][8][16] of a full group and two expanded panels, the columns of `part` after those before
/// it: y holds the result once the last part is done.
using PairFn = void (*)(const std::byte* first, const std::byte* second,
                        const ActivationGroup& group, int64_t cols, Share part, float* y);

struct PanelKernels {
  Activations activations = Activations::kFloat;
  int parts = 1;                 ///< of a packed panel
  bool direct_expanded = false;  ///< the direct functions take expanded panels, not packed ones
  /// For 1, 2 and 4 panels; groups of 1, 2, 4 and 8 rows. Null where it does not pay; all have
  /// those for a panel and up to 4 rows.
  DirectFn direct[3][4] = {};
  ExpandFn expand = nullptr;  ///< null: the packed form serves as expanded
  int64_t (*expanded_bytes)(int64_t cols) = nullptr;
  TileFn tile = nullptr;
  PairFn pair =
      nullptr;  ///< null: there is none; panels of two weights pair if theirs are the same
  int64_t most_columns = int64_t{1} << 40;  ///< of a part that `pair` should take at once
};

/// Of all types of groups of codes.
struct AffineTable {
  PanelKernels of[kAffineTypes];

  const PanelKernels& at(DType type) const { return of[affine_index(type)]; }
};

/// What the panels of a weight, in WeightFormat::panels `format`, are multiplied by.
const PanelKernels* panel_kernels(Target target, DType type, uint8_t format, bool exact);

// Null where the family does not know the type.
const PanelKernels* block_kernels(Target target, DType type);     ///< blocks of 32
const PanelKernels* group_kernels(Target target, DType type);     ///< MLX's groups of codes
const PanelKernels* super_16_kernels(Target target, DType type);  ///< Q2_K, Q3_K, Q6_K
const PanelKernels* super_32_kernels(Target target, DType type);  ///< Q4_K, Q5_K
/// Q8_K; IQ4_XS, IQ3_XXS, IQ3_S, IQ2_XXS, IQ1_S, TQ1_0, TQ2_0
const PanelKernels* codes_32_kernels(Target target, DType type);
const PanelKernels* codes_16_kernels(Target target, DType type);  ///< IQ2_XS, IQ2_S, IQ1_M
const PanelKernels* float_kernels(Target target, DType type);     ///< F32, F16, MXFP8, FP8
const PanelKernels* bf16_kernels(Target target, bool exact);
/// All types, f32 rows.
const PanelKernels* exact_kernels(Target target, DType type);
const PanelKernels* exact_split_kernels(Target target);

}  // namespace veery

// panel_kernels.h: the microkernels of all weight types: panels times a group of token rows.
//
// The lanes of a vector are the 16 outputs of a panel; a microkernel broadcasts activations and
// accumulates all columns of an output sequentially in one register (register blocking: panels x
// rows accumulators). There are two kinds:
//   direct        reads packed panels and decodes codes in registers. Memory bandwidth bound; used
//                 for few rows (GEMV, skinny GEMM).
//   tile, pair    reads panels whose codes were expanded to bytes once (ExpandFn) and reuses them
//                 for all rows of a block. Compute bound; used for many rows (GEMM).
#pragma once
#include "kernels/cpu/activations/activations.h"
#include "kernels/kernels.h"

namespace veery {

/// Software prefetch of packed panels.
struct Prefetch {
  int64_t distance = 0;  ///< bytes ahead of the current read; 0: no prefetch
  int64_t skip = 0;      ///< bytes between the end of a panel and the one read after it
};
/// Writes y[panel][8][16], the products of panels with the w rows of `group`. `panels` lists the
/// parts of each panel, one panel after the other.
using DirectFn = void (*)(const std::byte* const* panels, const ActivationGroup& group,
                          int64_t cols, Prefetch ahead, float* y);
/// Expands a packed panel, given by its parts, to the layout that TileFn and PairFn read.
using ExpandFn = void (*)(const std::byte* const* panel, int64_t cols, std::byte* expanded);
/// Writes y[8][16], the products of an expanded panel with a full group.
using TileFn = void (*)(const std::byte* expanded, const ActivationGroup& group, int64_t cols,
                        float* y);
/// Updates y[2][8][16], the products of two expanded panels with a full group, by the columns of
/// `part`. Parts must be processed in ascending order; y is complete after the last one.
using PairFn = void (*)(const std::byte* first, const std::byte* second,
                        const ActivationGroup& group, int64_t cols, Share part, float* y);

struct PanelKernels {
  Activations activations = Activations::kFloat;
  int parts = 1;                 ///< number of parts of a packed panel
  bool direct_expanded = false;  ///< `direct` takes expanded panels instead of packed ones
  /// [1, 2 or 4 panels][groups of 1, 2, 4 or 8 rows]. Null if it would not be faster; those for one
  /// panel and up to 4 rows are never null.
  DirectFn direct[3][4] = {};
  ExpandFn expand = nullptr;  ///< null: packed and expanded layout are the same
  int64_t (*expanded_bytes)(int64_t cols) = nullptr;
  TileFn tile = nullptr;
  /// May be null. Panels of two weights can be multiplied together if both have the same `pair`.
  PairFn pair = nullptr;
  int64_t most_columns = int64_t{1} << 40;  ///< maximum columns of a part for `pair` (L1 blocking)
};

/// The microkernels of all affine types.
struct AffineTable {
  PanelKernels of[kAffineTypes];

  const PanelKernels& at(DType type) const { return of[affine_index(type)]; }
};

/// Returns the microkernels for a weight type. `format` is WeightFormat::panels; `exact` selects
/// f32 activations and weights decoded to f32.
const PanelKernels* panel_kernels(Target target, DType type, uint8_t format, bool exact);

// The families return null for types of other families.
const PanelKernels* block_kernels(Target target, DType type);     ///< blocks of 32
const PanelKernels* group_kernels(Target target, DType type);     ///< affine groups (MLX)
const PanelKernels* super_16_kernels(Target target, DType type);  ///< Q2_K, Q3_K, Q6_K
const PanelKernels* super_32_kernels(Target target, DType type);  ///< Q4_K, Q5_K
/// Q8_K; IQ4_XS, IQ3_XXS, IQ3_S, IQ2_XXS, IQ1_S, TQ1_0, TQ2_0
const PanelKernels* codes_32_kernels(Target target, DType type);
const PanelKernels* codes_16_kernels(Target target, DType type);  ///< IQ2_XS, IQ2_S, IQ1_M
const PanelKernels* float_kernels(Target target, DType type);     ///< F32, F16, MXFP8, FP8
const PanelKernels* bf16_kernels(Target target, bool exact);
/// All types, f32 activations.
const PanelKernels* exact_kernels(Target target, DType type);
const PanelKernels* exact_split_kernels(Target target);

}  // namespace veery

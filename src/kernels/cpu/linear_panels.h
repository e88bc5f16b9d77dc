// linear_panels.h: what the linear kernels are made of: products of one panel with a group of rows.
#pragma once
#include "kernels/cpu/activations.h"
#include "kernels/kernels.h"

namespace veery {

/// y[w][16] = rows of `group` times a panel, given as packed. `ahead`: bytes from where it reads to
/// where it prefetches; 0: it does not.
using DirectFn = void (*)(const std::byte* panel, const ActivationGroup& group, int64_t cols,
                          int64_t ahead, float* y);
/// Writes a panel in the form that the tile functions take.
using ExpandFn = void (*)(const std::byte* panel, int64_t cols, std::byte* expanded);
/// As DirectFn, on an expanded panel.
using TileFn = void (*)(const std::byte* expanded, const ActivationGroup& group, int64_t cols,
                        float* y);

/// The same for two expanded panels and a full group: y[2][8][16].
using PairFn = void (*)(const std::byte* first, const std::byte* second,
                        const ActivationGroup& group, int64_t cols, float* y);

inline constexpr int kDirectRows = 4;  ///< rows of a group for which a panel is used as packed

struct PanelKernels {
  Activations activations = Activations::kFloat;
  DirectFn direct[kDirectRows] = {};  ///< by rows - 1; null: expand first
  ExpandFn expand = nullptr;          ///< null: the tile functions take packed panels
  TileFn tile[kGroupRows] = {};       ///< by rows - 1
  PairFn pair = nullptr;  ///< null: there is none; two weights pair if theirs are the same
  int64_t (*expanded_bytes)(int64_t cols) = nullptr;
};

// Null where the family does not know the type.
const PanelKernels* block_kernels(Target target, DType type);  ///< blocks of 32
const PanelKernels* super_kernels(Target target, DType type);  ///< K types
const PanelKernels* float_kernels(Target target, DType type);  ///< F32, F16, BF16
const PanelKernels* exact_kernels(Target target, DType type);  ///< quantised weights, f32 rows

}  // namespace veery

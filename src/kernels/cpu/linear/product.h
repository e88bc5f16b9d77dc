// product.h: blocking, memory sizes and work split of one linear dispatch, recomputed in each
// phase.
#pragma once
#include <algorithm>
#include <array>

#include "kernels/cpu/codec/panel_kernels.h"
#include "kernels/cpu/panels/panel_parts.h"

namespace veery {

struct LinearPhases {
  KernelPhases few, few_argmax, many, many_argmax;
};

struct Weight {
  const PanelKernels* kernels;
  std::array<PanelPart, kMostParts> parts;  ///< PanelKernels::parts of them
  int64_t stride;                           ///< bytes per panel
  int64_t rows;                             ///< output rows
  int64_t column;                           ///< first column of the output that this weight writes

  int64_t panels() const { return (rows + kLanes - 1) / kLanes; }
  /// Returns the address of part k of a panel.
  const std::byte* part(int k, int64_t panel) const {
    const PanelPart& of = parts[static_cast<size_t>(k)];
    return of.data + panel * of.stride;
  }
};

/// The largest output of one token row in each lane, over the panels of one worker.
struct alignas(64) Best {
  float value[kLanes];
  int32_t index[kLanes];
};

/// Maximum number of panels per microkernel call.
inline constexpr int kMostPanels = 4;

/// Maximum number of groups per block of rows, and bytes of the sums of a group and two panels.
inline constexpr int64_t kMostGroups = 64;
inline constexpr int64_t kPairBytes = 2 * kGroupRows * kLanes * sizeof(float);

struct Product {
  int64_t rows = 0, cols = 0;
  bool gated = false;
  int count = 0;
  std::array<Weight, 3> weights;
  std::array<bool, kActivationKinds> needs{};  ///< by Activations: some weight needs this kind
  int group_size = kGroupRows;                 ///< rows of every group except the last
  int64_t block_groups = 1;                    ///< groups of a block of rows (L2 blocking)
  bool packed = false;                         ///< few rows: panels are not expanded
  int64_t ahead = 0;                           ///< prefetch distance, bytes
  bool quantises_residual =
      false;  ///< rows 2 r and 2 r + 1 are row r of x, as int8, and its residual

  /// Returns the number of output matrices: a gated pair of weights has one.
  int outputs() const { return gated ? 1 : count; }
  int64_t groups() const { return (rows + group_size - 1) / group_size; }
  int group_rows(int64_t group) const {
    return static_cast<int>(std::min<int64_t>(group_size, rows - group * group_size));
  }
  /// Returns the number of token rows: of x and of the output.
  int64_t outer_rows() const { return quantises_residual ? rows / 2 : rows; }
  /// Returns the bytes of the f32 residuals of `of` rows, needed during quantisation.
  int64_t residual_bytes(int of) const {
    return quantises_residual ? of / 2 * cols * int64_t{sizeof(float)} : 0;
  }
  /// Returns the bytes of the largest outputs, [worker][row], at the beginning of Dispatch::work.
  int64_t best_bytes(bool argmax, const Worker& worker) const {
    return argmax ? outer_rows() * worker.count * int64_t{sizeof(Best)} : 0;
  }
  /// Returns the bytes of the quantised activations of all rows, in all kinds that are needed.
  int64_t activation_bytes() const {
    int64_t bytes = 0;
    for (int kind = 0; kind < kActivationKinds; ++kind) bytes += kind_bytes(kind);
    return bytes;
  }
  int64_t kind_bytes(int kind) const {
    return needs[kind] ? round_up(rows, kGroupRows) *
                             activation_row_bytes(static_cast<Activations>(kind), cols)
                       : 0;
  }
  /// Returns the address of a group in the quantised activations at `base`.
  std::byte* group(std::byte* base, int kind, int64_t index) const {
    for (int before = 0; before < kind; ++before) base += kind_bytes(before);
    return base + index * group_size * activation_row_bytes(static_cast<Activations>(kind), cols);
  }
  /// Returns the bytes of the partial sums of a block and of the expanded panels that follow them.
  int64_t expanded_bytes() const {
    int64_t most = 0;
    int64_t sum = 0;
    for (int i = 0; i < count; ++i) {
      const PanelKernels& k = *weights[i].kernels;
      const int64_t bytes = k.expand != nullptr ? round_up(k.expanded_bytes(cols), 64) : 0;
      most = std::max(most, bytes);
      sum += bytes;
    }
    return kMostGroups * kPairBytes + (gated ? 2 * sum : 2 * most);
  }
  /// Returns the scratch bytes of a worker that quantises all rows itself: quantised activations,
  /// expanded panels, residuals.
  int64_t few_scratch_bytes() const {
    return activation_bytes() + expanded_bytes() + residual_bytes(kGroupRows);
  }
  /// Returns the number of columns that two panels of output i are multiplied with before the next
  /// group of rows: all, or as many as fit the L1 cache.
  int64_t part_columns(int i) const {
    const PanelKernels& k = *weights[i].kernels;
    if (packed || k.pair == nullptr || (gated && k.pair != weights[1].kernels->pair)) return cols;
    const int64_t parts = (cols + k.most_columns - 1) / k.most_columns;
    return std::min(cols, round_up((cols + parts - 1) / parts, 32));
  }
  /// Returns the number of panels per set for output i; a gate counts the panels of both weights.
  int panels_at_once(int i) const {
    const auto has_four = [](const PanelKernels& k) {
      return k.direct[2][0] != nullptr && !k.direct_expanded;
    };
    return packed && has_four(*weights[i].kernels) && (!gated || has_four(*weights[1].kernels))
               ? kMostPanels
               : 2;
  }
  /// Returns the same number counted in panels of the output.
  int64_t step(int i) const { return panels_at_once(i) / (gated ? 2 : 1); }
  /// Returns whether some group of rows needs expanded panels of weight i. Small groups need them
  /// only if PanelKernels::direct_expanded.
  bool expands(int i) const {
    const PanelKernels& k = *weights[i].kernels;
    const int last = group_rows(groups() - 1);
    const bool only_small = packed || (groups() == 1 && last <= kSmallGroupRows);
    return k.expand != nullptr && (k.direct_expanded || !only_small);
  }
  /// Returns the panels of output i in a worker's share. The panels of all outputs, in order, are
  /// split into shares of equal bytes.
  Share share_of(int i, const Worker& worker) const {
    int64_t total = 0;
    int64_t before = 0;
    for (int o = 0; o < outputs(); ++o) {
      if (o == i) before = total;
      total += weights[o].panels() * panel_cost(o);
    }
    const auto at = [&](int64_t index) {
      const int64_t bytes = total * index / worker.count - before;
      const int64_t panel = (bytes + panel_cost(i) - 1) / panel_cost(i);
      return std::clamp<int64_t>(bytes <= 0 ? 0 : panel, 0, weights[i].panels());
    };
    return {at(worker.index), at(worker.index + 1)};
  }
  int64_t panel_cost(int i) const {
    return std::max<int64_t>(1, weights[i].stride + (gated ? weights[1].stride : 0));
  }
};

/// Sets group size, blocking and prefetch distance of `p`, whose rows and weights are set.
inline void set_groups(Product& p) {
  constexpr int64_t kActivationBytes = 512 << 10;  // half of an L2 cache of 1 MiB
  constexpr int64_t kAhead = 8192;
  constexpr int64_t kPackedRows = 16;  // up to here, expanding a panel costs more than it saves
  p.packed = p.rows <= kPackedRows;
  const auto has_eight = [](const Weight& w) { return w.kernels->direct[0][3] != nullptr; };
  if (p.packed && !std::all_of(p.weights.begin(), p.weights.begin() + p.count, has_eight))
    p.group_size = kSmallGroupRows;
  const int64_t groups = std::max<int64_t>(1, p.groups());
  const int64_t part_bytes =
      std::max<int64_t>(1, p.activation_bytes() / groups * p.part_columns(0) / p.cols);
  const int64_t most = std::clamp<int64_t>(kActivationBytes / part_bytes, 1, kMostGroups);
  const int64_t blocks = (groups + most - 1) / most;
  p.block_groups = (groups + blocks - 1) / blocks;
  p.ahead = kAhead;
}

/// Appends a packed weight to `p`.
inline void add_weight(Product& p, const Operand& w, Target target, bool exact) {
  Weight& weight = p.weights[static_cast<size_t>(p.count++)];
  weight = {panel_kernels(target, w.dtype, w.format, exact), panel_parts(w), w.stride, w.rows, 0};
  p.needs[static_cast<size_t>(weight.kernels->activations)] = true;
}

/// Returns the product of a linear with `rows` token rows.
inline Product product(const Dispatch& d, int64_t rows, Target target, bool exact) {
  const auto& attr = d.as<FusedLinearAttr>();
  Product p;
  p.rows = rows;
  p.cols = d.in[FusedLinearIn::kX].cols;
  p.gated = attr.gate != Activation::kNone && attr.weights == 2;
  int64_t column = 0;
  for (int i = 0; i < attr.weights; ++i) {
    add_weight(p, d.in[FusedLinearIn::kWeight + i], target, exact);
    p.weights[i].column = column;
    column += d.in[FusedLinearIn::kWeight + i].rows;
  }
  const Activations kind = p.weights[0].kernels->activations;
  p.quantises_residual = attr.precision == Precision::kHigh &&
                         (kind == Activations::kPer32 || kind == Activations::kPer256);
  if (p.quantises_residual) p.rows *= 2;
  set_groups(p);
  return p;
}

}  // namespace veery

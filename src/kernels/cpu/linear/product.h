// product.h: the sizes and shares of one linear dispatch, worked out anew in each phase.
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
  int64_t stride;                           ///< bytes a panel
  int64_t rows;
  int64_t column;  ///< of the output, where its rows begin

  int64_t panels() const { return (rows + kLanes - 1) / kLanes; }
  /// Where part `k` of a panel begins.
  const std::byte* part(int k, int64_t panel) const {
    const PanelPart& of = parts[static_cast<size_t>(k)];
    return of.data + panel * of.stride;
  }
};

/// For a row the largest output of each lane, over the panels of one worker.
struct alignas(64) Best {
  float value[kLanes];
  int32_t index[kLanes];
};

/// Most panels that are multiplied with a group of rows at once.
inline constexpr int kMostPanels = 4;

/// Most groups of rows that are multiplied together, and bytes of the sums of one with two panels.
inline constexpr int64_t kMostGroups = 64;
inline constexpr int64_t kPairBytes = 2 * kGroupRows * kLanes * sizeof(float);

struct Product {
  int64_t rows = 0, cols = 0;
  bool gated = false;
  int count = 0;
  std::array<Weight, 3> weights;
  std::array<bool, kActivationKinds> wants{};  ///< by Activations
  int group_size = kGroupRows;                 ///< rows of a group, but for the last
  int64_t block_groups = 1;                    ///< groups of rows that are multiplied together
  bool packed = false;                         ///< few rows: panels are not expanded for them
  int64_t ahead = 0;                           ///< prefetch distance
  bool two_terms = false;  ///< rows 2 r and 2 r + 1 are row r of x: int8, and what that leaves over

  /// Weights with outputs of their own.
  int outputs() const { return gated ? 1 : count; }
  int64_t groups() const { return (rows + group_size - 1) / group_size; }
  int group_rows(int64_t group) const {
    return static_cast<int>(std::min<int64_t>(group_size, rows - group * group_size));
  }
  /// Rows of x and of the output.
  int64_t outer_rows() const { return two_terms ? rows / 2 : rows; }
  /// Bytes for the residuals of the int8 values of so many rows, while they are prepared.
  int64_t residual_bytes(int of) const {
    return two_terms ? of / 2 * cols * int64_t{sizeof(float)} : 0;
  }
  /// Bytes that the largest outputs take at the beginning of Dispatch::work: [worker][row].
  int64_t best_bytes(bool argmax, const Worker& worker) const {
    return argmax ? outer_rows() * worker.count * int64_t{sizeof(Best)} : 0;
  }
  /// Bytes of the prepared forms of all rows.
  int64_t activation_bytes() const {
    int64_t bytes = 0;
    for (int kind = 0; kind < kActivationKinds; ++kind) bytes += form_bytes(kind);
    return bytes;
  }
  int64_t form_bytes(int kind) const {
    return wants[kind] ? round_up(rows, kGroupRows) *
                             activation_row_bytes(static_cast<Activations>(kind), cols)
                       : 0;
  }
  /// Where a group begins in the prepared rows at `base`.
  std::byte* group(std::byte* base, int kind, int64_t index) const {
    for (int before = 0; before < kind; ++before) base += form_bytes(before);
    return base + index * group_size * activation_row_bytes(static_cast<Activations>(kind), cols);
  }
  /// Bytes for the expanded panels that are needed at a time, after the sums of two panels.
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
  /// Bytes of a worker's scratch where it prepares the rows for itself: their forms, expanded
  /// panels, residuals.
  int64_t few_scratch_bytes() const {
    return activation_bytes() + expanded_bytes() + residual_bytes(kGroupRows);
  }
  /// Columns of a part that two panels of output i are multiplied with before the next group of
  /// rows: all, or what a first level cache holds.
  int64_t part_columns(int i) const {
    const PanelKernels& k = *weights[i].kernels;
    if (packed || k.pair == nullptr || (gated && k.pair != weights[1].kernels->pair)) return cols;
    const int64_t parts = (cols + k.most_columns - 1) / k.most_columns;
    return std::min(cols, round_up((cols + parts - 1) / parts, 32));
  }
  /// Most panels that are multiplied with a group of rows at once, for output i.
  int panels_at_once(int i) const {
    const auto has_four = [](const PanelKernels& k) {
      return k.direct[2][0] != nullptr && !k.direct_expanded;
    };
    return packed && has_four(*weights[i].kernels) && (!gated || has_four(*weights[1].kernels))
               ? kMostPanels
               : 2;
  }
  /// The same counted in panels of the output.
  int64_t step(int i) const { return panels_at_once(i) / (gated ? 2 : 1); }
  /// Whether some group of rows needs the expanded panels of weight i. Small groups mostly do not.
  bool expands(int i) const {
    const PanelKernels& k = *weights[i].kernels;
    const int last = group_rows(groups() - 1);
    const bool only_small = packed || (groups() == 1 && last <= kSmallGroupRows);
    return k.expand != nullptr && (k.direct_expanded || !only_small);
  }
  /// The panels of output i that fall to a worker: all panels of all outputs, one after the other,
  /// are split by bytes.
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

/// Chooses groups and blocks for the rows of `p`, whose weights are set.
inline void set_groups(Product& p) {
  constexpr int64_t kActivationBytes = 512 << 10;  // half of a second level cache
  constexpr int64_t kAhead = 8192;
  constexpr int64_t kPackedRows = 16;  // below, expanding a panel costs more than it saves
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

/// Adds a weight (in panels) beside those that `p` has.
inline void add_weight(Product& p, const Operand& w, Target target, bool exact) {
  Weight& weight = p.weights[static_cast<size_t>(p.count++)];
  weight = {panel_kernels(target, w.dtype, w.format, exact), panel_parts(w), w.stride, w.rows, 0};
  p.wants[static_cast<size_t>(weight.kernels->activations)] = true;
}

/// That of a linear.
inline Product product(const Dispatch& d, int64_t rows, Target target, bool exact) {
  const auto& attr = d.as<LinearAttr>();
  Product p;
  p.rows = rows;
  p.cols = d.in[LinearIn::kX].cols;
  p.gated = attr.gate != Activation::kNone && attr.weights == 2;
  int64_t column = 0;
  for (int i = 0; i < attr.weights; ++i) {
    add_weight(p, d.in[LinearIn::kWeight + i], target, exact);
    p.weights[i].column = column;
    column += d.in[LinearIn::kWeight + i].rows;
  }
  const Activations form = p.weights[0].kernels->activations;
  p.two_terms = attr.precision == Precision::kHigh &&
                (form == Activations::kPer32 || form == Activations::kPer256);
  if (p.two_terms) p.rows *= 2;
  set_groups(p);
  return p;
}

}  // namespace veery

// moe_problem.h: sizes, memory layout and work split of one mixture of experts, recomputed in each
// phase.
#pragma once
#include <algorithm>

#include "kernels/cpu/linear/product.h"

namespace veery::moe {

struct Phases {
  KernelPhases few, many;
};

struct Problem {
  const Dispatch& d;
  const MoeAttr& attr = d.as<MoeAttr>();
  int64_t rows;
  int64_t hidden = d.in[MoeIn::kDown].cols;
  int64_t chosen = rows * attr.used;  ///< maximum number of pairs of row and expert
  Product up, down;                   ///< products of expert 0, without rows; up includes gate
  int64_t block_rows = kGroupRows;    ///< rows per block of up (L2 blocking)

  Problem(const Dispatch& dispatch, int64_t row_count, Target target, bool exact)
      : d(dispatch), rows(row_count) {
    constexpr int64_t kBlockBytes = 512 << 10;  // half of an L2 cache of 1 MiB
    up.cols = d.in[MoeIn::kX].cols;
    up.gated = static_cast<bool>(d.in[MoeIn::kGate]);
    if (up.gated) add_weight(up, d.in[MoeIn::kGate].of_stack(0), target, exact);
    add_weight(up, d.in[MoeIn::kUp].of_stack(0), target, exact);
    down.cols = hidden;
    add_weight(down, d.in[MoeIn::kDown].of_stack(0), target, exact);
    block_rows = std::max(block_rows, kBlockBytes / x_row_bytes() / kGroupRows * kGroupRows);
  }
  Product up_of(int64_t expert, int64_t count) const {
    return of(up, expert, count, up.gated ? MoeIn::kGate : MoeIn::kUp);
  }
  Product down_of(int64_t expert, int64_t count) const {
    return of(down, expert, count, MoeIn::kDown);
  }

  // Layout of Dispatch::work: h; with many rows also the lists, quantised x, quantised h.
  int64_t h_stride() const { return round_up(hidden, kLanes); }
  int64_t h_bytes() const { return chosen * h_stride() * int64_t{sizeof(float)}; }
  int64_t list_bytes() const { return round_up((2 * chosen + 2 * (attr.experts + 1)) * 4, 64); }
  int64_t x_row_bytes() const {
    int64_t bytes = 0;
    for (int kind = 0; kind < kActivationKinds; ++kind) bytes += x_row_bytes(kind);
    return bytes;
  }
  int64_t x_row_bytes(int kind) const {
    return up.needs[kind] ? activation_row_bytes(static_cast<Activations>(kind), up.cols) : 0;
  }
  int64_t x_bytes() const { return rows * x_row_bytes(); }
  int64_t h_group_row_bytes() const {
    return activation_row_bytes(down.weights[0].kernels->activations, hidden);
  }
  /// Each expert's quantised h is padded to whole groups of kGroupRows.
  int64_t h_group_bytes() const {
    const int64_t experts = std::min<int64_t>(chosen, attr.experts);
    return (chosen + experts * (kGroupRows - 1)) * h_group_row_bytes();
  }
  int64_t up_scratch_bytes() const {
    return round_up(std::min(rows, block_rows), kGroupRows) * x_row_bytes() + up.expanded_bytes();
  }

  std::byte* lists_at() const { return d.work + h_bytes(); }
  std::byte* x_at() const { return lists_at() + list_bytes(); }
  std::byte* h_groups_at() const { return x_at() + x_bytes(); }

  /// Returns the address of row r of quantised x, a group of one row.
  template <typename Byte>
  Byte* x_row(Byte* base, int kind, int64_t r) const {
    for (int before = 0; before < kind; ++before) base += rows * x_row_bytes(before);
    return base + r * x_row_bytes(kind);
  }
  /// Returns h of pair `at`.
  float* h_row(int64_t at) const { return reinterpret_cast<float*>(d.work) + at * h_stride(); }

  template <typename Lists>
  std::byte* h_group(std::byte* base, const Lists& lists, int64_t expert) const {
    return base + lists.h_offset[expert] * h_group_row_bytes();
  }
  /// Returns the number of groups of h, over all experts.
  template <typename Lists>
  int64_t groups(const Lists& lists) const {
    int64_t sum = 0;
    for (int64_t e = 0; e < attr.experts; ++e)
      if (lists.count(e) > 0) sum += down_of(e, lists.count(e)).groups();
    return sum;
  }

 private:
  Product of(Product p, int64_t expert, int64_t count, int input) const {
    for (int i = 0; i < p.count; ++i)
      p.weights[i].parts = panel_parts(d.in[input + i].of_stack(expert));
    p.rows = count;
    set_groups(p);
    return p;
  }
};

/// The routed pairs of token row and expert, sorted by expert, then by row.
struct Lists {
  int32_t* begin;     ///< [experts + 1] index of the first pair of an expert
  int32_t* h_offset;  ///< [experts + 1] first row of an expert in quantised h (padded to groups)
  int32_t* row;       ///< [pairs]
  float* gate;        ///< [pairs]

  Lists(const Problem& m, std::byte* base)
      : begin(reinterpret_cast<int32_t*>(base)),
        h_offset(begin + m.attr.experts + 1),
        row(h_offset + m.attr.experts + 1),
        gate(reinterpret_cast<float*>(row + m.chosen)) {}
  int64_t count(int64_t expert) const { return begin[expert + 1] - begin[expert]; }

  void fill(const Problem& m) const {
    const int32_t experts = m.attr.experts;
    std::fill_n(begin, experts + 1, 0);
    each(m, [&](int64_t, int32_t e, float) { ++begin[e + 1]; });
    for (int32_t e = 0; e < experts; ++e) begin[e + 1] += begin[e];
    std::copy_n(begin, experts, h_offset);
    each(m, [&](int64_t r, int32_t e, float g) {
      row[h_offset[e]] = static_cast<int32_t>(r);
      gate[h_offset[e]++] = g;
    });
    h_offset[0] = 0;
    for (int32_t e = 0; e < experts; ++e)
      h_offset[e + 1] = h_offset[e] + static_cast<int32_t>(round_up(count(e), kGroupRows));
  }

 private:
  template <typename Fn>
  static void each(const Problem& m, Fn fn) {
    for (int64_t r = 0; r < m.rows; ++r) {
      const float* gates = m.d.in[MoeIn::kGates].row<float>(r);
      int32_t left = m.attr.used;
      for (int32_t e = 0; e < m.attr.experts && left > 0; ++e) {
        if (gates[e] == 0) continue;
        fn(r, e, gates[e]);
        --left;
      }
    }
  }
};

/// Splits the up (and gate) panels of all experts into shares of equal cost. Reading a panel costs
/// about as much as multiplying it with four rows.
class PanelShares {
 public:
  PanelShares(const Problem& m, const Lists& lists, const Worker& worker)
      : panels_(m.up.weights[0].panels()), worker_(worker) {
    for (int64_t e = 0; e < m.attr.experts; ++e) total_ += panels_ * cost(lists.count(e));
  }
  /// Returns this worker's panels of the next expert, which has `count` rows.
  Share next(int64_t count) {
    if (count == 0) return {0, 0};
    const auto at = [&](int64_t index) {
      const int64_t work = total_ * index / worker_.count - before_;
      return std::clamp<int64_t>((work + cost(count) - 1) / cost(count), 0, panels_);
    };
    const Share own{at(worker_.index), at(worker_.index + 1)};
    before_ += panels_ * cost(count);
    return own;
  }

 private:
  static int64_t cost(int64_t count) { return count == 0 ? 0 : count + 4; }

  int64_t panels_;
  const Worker& worker_;
  int64_t total_ = 0, before_ = 0;
};

}  // namespace veery::moe

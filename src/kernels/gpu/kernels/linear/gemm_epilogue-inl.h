// gemm_epilogue-inl.h: work split and epilogue of the products that collect their sums in shared
// memory.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// Returns whether finish_outputs() supports the activation: none or silu.
VEERY_GPU bool has_fast_activation(const ActivationParams& gate) { return gate.kind <= 1; }
/// Rows first, first + step, .. below `rows`.
struct OutputRows {
  int first, step, rows;

  VEERY_GPU int row(int j) const { return first + j * step; }
};
/// finish_output() of kAtOnce rows at a time, if has_fast_activation() and outputs are stored.
template <int kAtOnce>
VEERY_GPU void finish_outputs(const GemmParams& a, const OutputRows& of, int i, int n,
                              float (&y)[kAtOnce], const float (&up)[kAtOnce]) {
  const auto each = [&](const auto& change) {
    VEERY_UNROLL(8)
    for (int j = 0; j < kAtOnce; ++j)
      if (of.row(j) < of.rows) change(j);
  };
  const float bias = a.bias[i] != nullptr ? a.bias[i][n] : 0.0F;
  if (a.bias[i] != nullptr) each([&](int j) { y[j] = y[j] + bias; });
  if (a.gate.kind == 1) each([&](int j) { y[j] = silu(y[j]); });
  if (a.gated != 0) {
    const bool has_bias = a.bias[1] != nullptr;
    const float more = has_bias ? a.bias[1][n] : 0.0F;
    each([&](int j) { y[j] = y[j] * (has_bias ? up[j] + more : up[j]); });
  }
  if (a.scale != 1) each([&](int j) { y[j] = y[j] * a.scale; });
  const int column = a.column[i] + n;
  if (a.residual) {
    float x[kAtOnce];
    each([&](int j) { x[j] = a.residual.row(of.row(j))[column]; });
    each([&](int j) { y[j] = y[j] + x[j]; });
  }
  each([&](int j) { a.out.row(of.row(j))[column] = y[j]; });
}

/// Sums of a thread block in shared memory: [row][panel][g][outputs g and g + 8], the pair that an
/// mma lane has. Rows are padded by 4 floats against bank conflicts.
template <int kPanels>
struct GemmSums {
  static constexpr int kStride = kPanels * 16 + 4;
  float* at;

  /// Returns the lane's pair of a panel; `row` is the row times kStride.
  VEERY_GPU Two<float>& pair(int row, int panel) const {
    return *reinterpret_cast<Two<float>*>(at + row + panel * 16 + lane() / 4 * 2);
  }
  /// Stores the sums of a group: outputs g, g, g + 8, g + 8 of rows 2 t, 2 t + 1, ...
  VEERY_GPU void store(int group, int panel, const float (&sum)[4]) const {
    const int row = (group * 8 + lane() % 4 * 2) * kStride;
    pair(row, panel) = {sum[0], sum[2]};
    pair(row + kStride, panel) = {sum[1], sum[3]};
  }
  /// Returns the output that is stored at index i of a panel.
  static VEERY_GPU int stored_output(int i) { return i / 2 + i % 2 * 8; }
};

/// A thread block with kPanels panels and kGroups row groups. In a gated product the first half of
/// each kTogether panels are gates. kThreads threads write outputs.
template <int kPanels, int kGroups, int kTogether, int kThreads>
class GemmEpilogue {
 public:
  VEERY_GPU explicit GemmEpilogue(const GemmParams& params)
      : a_(params),
        rows_(static_cast<int>(a_.run.count(a_.rows)) * (a_.act.residual_rows != 0 ? 2 : 1)),
        panels_(panel_count(a_)),
        first_group_(block_x() * kGroups) {}

 protected:
  /// Panel p of the block; `panel` is past the end if there is none.
  VEERY_GPU PanelIndex panel_at(int p) const {
    if (a_.gated != 0) {
      const int m = p % kTogether, up = m >= kTogether / 2 ? 1 : 0;
      const int base = block_y() * (kPanels / 2) + p / kTogether * (kTogether / 2);
      return {up, base + m - up * (kTogether / 2)};
    }
    return block_y() * kPanels + p < panels_ ? find_panel(a_, block_y() * kPanels + p)
                                             : PanelIndex{0, panels_};
  }
  VEERY_GPU const uint8_t* panel_data(PanelIndex of) const {
    const Weight& w = a_.weight[of.weight];
    const int last = panel_count(w) - 1;  // panels past the end are not stored
    return w.data + int64_t{of.panel < last ? of.panel : last} * w.panel;
  }

  using Sums = GemmSums<kPanels>;
  static constexpr int kStride = Sums::kStride, kSumBytes = kGroups * 8 * kStride * 4;
  static VEERY_GPU Sums shared_sums() { return {reinterpret_cast<float*>(shared_memory())}; }

  VEERY_GPU void finish() const {
    if (a_.gated != 0)
      finish_values<true>(shared_sums().at);
    else
      finish_values<false>(shared_sums().at);
  }

  const GemmParams& a_;
  int rows_, panels_, first_group_;

 private:
  template <bool kGated>
  VEERY_GPU void finish_values(const float* values) const {
    constexpr int kPanelOutputs = kGated ? kTogether / 2 : kTogether;
    constexpr int kOutputs = kPanels / kTogether * kPanelOutputs * 16,
                  kThreadsPerOutput = kThreads / kOutputs;
    static_assert(kThreads % kOutputs == 0 && kOutputs % kWarp == 0);
    const int at = thread() % kOutputs, own = at / 16;
    const int p = own / kPanelOutputs * kTogether + own % kPanelOutputs;
    const PanelIndex of = panel_at(p);
    const float* from = values + p * 16 + at % 16;
    const int output = of.panel * 16 + Sums::stored_output(at % 16);
    const bool is_simple =
        a_.act.residual_rows == 0 && a_.argmax_keys == nullptr && has_fast_activation(a_.gate);
    if (is_simple)
      finish_fast<kGated, kThreadsPerOutput>(from, thread() / kOutputs, of, output);
    else
      finish_rows<kGated, kThreadsPerOutput>(from, thread() / kOutputs, of, output);
  }
  /// Several rows at a time, so that their memory accesses and the steps of their exp overlap.
  template <bool kGated, int kThreadsPerOutput>
  VEERY_GPU void finish_fast(const float* from, int first, PanelIndex of, int output) const {
    constexpr int kAtOnce = 8;
    static_assert(kGroups * 8 % (kThreadsPerOutput * kAtOnce) == 0);
    if (output >= a_.weight[of.weight].rows) return;
    VEERY_UNROLL(1)
    for (int r = first; r < kGroups * 8; r += kThreadsPerOutput * kAtOnce) {
      const int row = first_group_ * 8 + r;
      if (row >= rows_) break;
      float y[kAtOnce], up[kAtOnce];
      VEERY_UNROLL(8)
      for (int j = 0; j < kAtOnce; ++j) {
        const float* own = from + (r + j * kThreadsPerOutput) * kStride;
        y[j] = own[0], up[j] = kGated ? own[kTogether / 2 * 16] : 0.0F;
      }
      finish_outputs(a_, {row, kThreadsPerOutput, rows_}, of.weight, output, y, up);
    }
  }
  template <bool kGated, int kThreadsPerOutput>
  VEERY_GPU void finish_rows(const float* from, int first, PanelIndex of, int output) const {
    const bool is_output = output < a_.weight[of.weight].rows;
    const int terms = a_.act.residual_rows != 0 ? 2 : 1;
    for (int r = first; r * terms < kGroups * 8; r += kThreadsPerOutput) {
      const int row = first_group_ * 8 / terms + r;
      if (row * terms >= rows_) break;
      float y = from[r * terms * kStride];
      if (terms == 2) y = y + from[(r * terms + 1) * kStride];
      const float up = kGated ? from[r * terms * kStride + kTogether / 2 * 16] : 0.0F;
      uint64_t key = is_output ? finish_output(a_, row, of.weight, output, y, up) : 0;
      if (a_.argmax_keys == nullptr) continue;
      VEERY_UNROLL(5)
      for (int mask = 1; mask < kWarp; mask *= 2) {
        const uint64_t other = shuffle_xor(key, mask);
        key = other > key ? other : key;
      }
      if (lane() == 0 && key != 0) atomic_max(a_.argmax_keys + row, key);
    }
  }
};

}  // namespace veery::gpu

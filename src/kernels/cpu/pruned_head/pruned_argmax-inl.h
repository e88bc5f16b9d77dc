// pruned_argmax-inl.h: pruned argmax of an output head for one token row (pruned_argmax.h).
//
// The upper part of a weight (4 of 8 bits) yields an estimate of every output. A code is within 7.5
// of the centre of all codes with the same upper bits, so an output is within 7.5 sum |d x| of its
// estimate. A panel is pruned if its upper bound is below the threshold, which is an output that
// has been computed exactly. The remaining panels, the candidates, are estimated again with the
// middle part (5 of 8 bits), to within 3.5 sum |d x|. Panels that survive this too are multiplied
// with all bits by the microkernel of linear_kernel(), so the result has the same bits.
#if defined(VEERY_KERNELS_CPU_PRUNED_ARGMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_PRUNED_ARGMAX_INL_H
#undef VEERY_KERNELS_CPU_PRUNED_ARGMAX_INL_H
#else
#define VEERY_KERNELS_CPU_PRUNED_ARGMAX_INL_H
#endif

#include <bit>
#include <cmath>
#include <cstdlib>

#include "kernels/cpu/codec/panel_types-inl.h"
#include "kernels/cpu/codec/split.h"
#include "kernels/cpu/linear/epilogue-inl.h"
#include "kernels/cpu/linear/rows-inl.h"
#include "kernels/cpu/pruned_head/pruning_memory.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Maps floats to integers above 0 in the same order, for atomic comparison.
inline uint32_t order_key(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
inline float from_order_key(uint32_t v) {
  if (v == 0) return -HUGE_VALF;
  return std::bit_cast<float>(v >> 31 != 0 ? v & 0x7FFFFFFFU : ~v);
}

/// The largest output of a row that any worker has computed so far. It depends on the speed of the
/// workers; the result does not.
class Threshold {
 public:
  explicit Threshold(PruningRun& run, int64_t row = 0) : word_(run.threshold[row]) {}
  float value() const { return from_order_key(word_.load(std::memory_order_relaxed)); }
  void raise(float to) {
    uint32_t so_far = word_.load(std::memory_order_relaxed);
    while (so_far < order_key(to) &&
           !word_.compare_exchange_weak(so_far, order_key(to), std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<uint32_t>& word_;
};

/// Returns the sum of |q| over a block of 32 of row r of a group of two rows.
inline int32_t quad_magnitudes(const int8_t* quads, int r) {
  int32_t sum = 0;
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 4; ++i) sum += std::abs(quads[(2 * j + r) * 4 + i]);
  return sum;
}

/// If the lower kBits bits of a code are unknown, the code is within kRadius of the centre of its
/// interval, which has kStep codes.
template <int kBits>
constexpr float kRadius = ((1 << kBits) - 1) / 2.0F;
template <int kBits>
constexpr float kStep = 1 << kBits;
constexpr int kBitsAfterUpper = SplitPanels::kMiddleBits + SplitPanels::kLowerBits;
constexpr int kBitsAfterMiddle = SplitPanels::kLowerBits;

// Returns a factor for the bound kRadius |d x| that covers rounding. An output is a sum of 2 *
// blocks terms of up to 128 |d x|, and each addition rounds, here and in the product; 4 is a safety
// factor.
inline float with_rounding(int64_t blocks) {
  return 1 + 4 * 128 / kRadius<kBitsAfterMiddle> * static_cast<float>(2 * blocks + 16) * 0x1p-24F;
}

void sum_magnitudes(const ActivationGroup& g, int64_t blocks, const PruningMemory& s) {
  const float times = with_rounding(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    s.moment[b] = g.moment[2 * b] + g.moment[2 * b + 1];
    s.magnitude[b] = 0;
    for (int r = 0; r < 2; ++r)
      s.magnitude[b] +=
          times * g.scale[2 * b + r] * static_cast<float>(quad_magnitudes(g.quads + 64 * b, r));
  }
}

/// The effect of unknown lower bits on the 16 outputs of a panel, in units of kRadius.
struct Spread {
  F32 moment;     ///< sum d x: distance from "lower bits are 0" to the centre of the interval
  F32 magnitude;  ///< sum |d x|: maximum distance from the centre
};
HWY_INLINE Spread panel_spread(const uint8_t* upper, int64_t blocks, const PruningMemory& s) {
  Spread spread = {zero(), zero()};
  for (int64_t b = 0; b < blocks; ++b) {
    const F32 d = load_f16(upper + b * SplitPanels::kUpper + SplitPanels::kScale);
    spread.moment = fma(d, set(s.moment[b]), spread.moment);
    spread.magnitude = fma(abs(d), set(s.magnitude[b]), spread.magnitude);
  }
  return spread;
}
/// Returns the centres of the intervals of 16 outputs. y[2][16]: products of the row and of its
/// quantised residual with the codes shifted right by kBits.
template <int kBits>
HWY_INLINE F32 estimate_of(const float* y, const Spread& spread) {
  const F32 both = add(load(y), load(y + kLanes));
  return fma(spread.moment, set(kRadius<kBits>), mul(both, set(kStep<kBits>)));
}
/// Returns an upper bound of the 16 outputs of a panel.
template <int kBits>
HWY_INLINE float bound_of(F32 estimate, const Spread& spread) {
  const F32 bound = fma(spread.magnitude, set(kRadius<kBits>), estimate);
  // A NaN does not bound anything, so it becomes infinity.
  return max_of(select(greater(bound, set(-HUGE_VALF)), bound, set(HUGE_VALF)));
}

HWY_INLINE float largest_of(const Best& best) { return max_of(load(best.value)); }

/// Returns a group of two rows: the int8 values of token row `row`, and those of its residual.
inline ActivationGroup residual_pair(const Product& p, const Worker& worker, int64_t row = 0) {
  constexpr auto kKind = Activations::kPer32;
  return activation_group(kKind, worker.scratch + 2 * row * activation_row_bytes(kKind, p.cols),
                          p.cols, 2);
}

/// The three parts of a panel (panels/split_panels.h).
struct SplitPanel {
  const std::byte* parts[kMostParts];

  SplitPanel(const Weight& w, int64_t panel)
      : parts{w.part(0, panel), w.part(1, panel), w.part(2, panel)} {}
  void fetch(const Weight& w, int k) const {
    prefetch(reinterpret_cast<const uint8_t*>(parts[k]), 0,
             static_cast<int>(w.parts[static_cast<size_t>(k)].stride));
  }
};

/// Multiplies a panel, all bits, with token row `row`; the epilogue keeps the largest outputs.
void multiply_all_parts(const Finish& finish, const ActivationGroup& group, int64_t row,
                        int64_t panel) {
  const Weight& w = finish.p.weights[0];
  float y[2 * kLanes];
  w.kernels->direct[0][1](SplitPanel(w, panel).parts, group, finish.p.cols, {finish.p.ahead, 0}, y);
  finish(0, panel, 2 * row, 2, y, y);
}
/// Returns the largest output of a panel, after the epilogue.
inline float largest_product(const Dispatch& d, const Product& p, const ActivationGroup& group,
                             int64_t panel) {
  Best best;
  start_best(reinterpret_cast<std::byte*>(&best), 1, 0);
  multiply_all_parts({epilogue(d, &best), p}, group, 0, panel);
  return largest_of(best);
}

/// Bounds the outputs of one worker's share of the panels, for one token row.
class PanelPruner {
 public:
  PanelPruner(const Dispatch& d, const Product& p, const Worker& worker, const PruningMemory& s)
      : d_(d), p_(p), worker_(worker), s_(s), row_(residual_pair(p, worker)), threshold_(*s.run) {
    sum_magnitudes(row_, blocks_, s);
  }

  // Stores a bound for every panel.
  void scan() {
    const Share panels = p_.share_of(0, worker_);
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const std::byte* upper = upper_.data + panel * upper_.stride;
      const Spread spread = panel_spread(reinterpret_cast<const uint8_t*>(upper), blocks_, s_);
      if (s_.run->reads_two_parts)
        refine({panel, spread}, {p_.ahead, 0});
      else if (is_candidate(panel, upper, spread))
        defer({panel, spread});
    }
    for (; taken_ != put_; ++taken_) refine(deferred_[taken_ % kDeferred], {});
    s_.counts[worker_.index] = counts_;
  }

 private:
  struct Candidate {
    int64_t panel;
    Spread spread;
  };
  static constexpr int kDeferred = 2;

  bool could_be_largest(float bound) const { return !(bound * scale_ < threshold_.value()); }

  bool is_candidate(int64_t panel, const std::byte* upper, const Spread& spread) {
    float y[2 * kLanes];
    multiply_upper_(&upper, row_, p_.cols, {p_.ahead, 0}, y);
    s_.bounds[panel] = bound_of<kBitsAfterUpper>(estimate_of<kBitsAfterUpper>(y, spread), spread);
    return could_be_largest(s_.bounds[panel]);
  }

  // Delays refine() until the prefetched middle part has arrived. Without a threshold nothing can
  // be pruned, so the first candidate is refined immediately.
  void defer(const Candidate& candidate) {
    if (!(threshold_.value() > -HUGE_VALF)) return refine(candidate, {});
    SplitPanel(p_.weights[0], candidate.panel).fetch(p_.weights[0], 1);
    if (put_ - taken_ == kDeferred) refine(deferred_[taken_++ % kDeferred], {});
    deferred_[put_++ % kDeferred] = candidate;
  }

  // Estimates the outputs again with the middle part. A panel whose estimate exceeds the threshold
  // probably holds a larger output: it is multiplied with all bits to raise the threshold.
  void refine(const Candidate& candidate, Prefetch ahead) {
    float y[2 * kLanes];
    multiply_two_parts_(SplitPanel(p_.weights[0], candidate.panel).parts, row_, p_.cols, ahead, y);
    const F32 estimate = estimate_of<kBitsAfterMiddle>(y, candidate.spread);
    if (could_be_largest(bound_of<kBitsAfterUpper>(estimate, candidate.spread)))
      ++counts_.candidates;
    s_.bounds[candidate.panel] = bound_of<kBitsAfterMiddle>(estimate, candidate.spread);
    if (max_of(estimate) * scale_ > threshold_.value())
      threshold_.raise(largest_product(d_, p_, row_, candidate.panel));
  }

  const Dispatch& d_;
  const Product& p_;
  const Worker& worker_;
  const PruningMemory& s_;
  const PanelPart upper_ = p_.weights[0].parts[0];
  const int64_t blocks_ = p_.cols / 32;
  const float scale_ = d_.as<FusedLinearAttr>().scale;
  const ActivationGroup row_;
  // The upper part is a valid Q4_0 matrix.
  const DirectFn multiply_upper_ = block_kernels(kTarget, DType::kQ4_0)->direct[0][1];
  const DirectFn multiply_two_parts_ = split_kernels(kTarget).five_bits[1];
  Threshold threshold_;
  Candidate deferred_[kDeferred];
  int64_t put_ = 0, taken_ = 0;
  PruningCounts counts_ = {};
};

/// Multiplies token row `row` with all panels whose bounds reach its threshold. Worker i takes the
/// panels i, i + workers, ...
void multiply_candidates(const Finish& finish, const Worker& worker, const PruningMemory& s,
                         int64_t row) {
  const Product& p = finish.p;
  const ActivationGroup group = residual_pair(p, worker, row);
  const float scale = finish.e.scale;
  const int64_t panels = p.weights[0].panels();
  const float* bounds = s.bounds + row * panels;
  float least = Threshold(*s.run, row).value();
  const auto next_after = [&](int64_t panel) {
    do panel += worker.count;
    while (panel < panels && bounds[panel] * scale < least);
    return panel;
  };
  int64_t panel = next_after(worker.index - worker.count);
  int32_t multiplied = 0;
  for (; panel < panels; ++multiplied) {
    const int64_t next = next_after(panel);
    if (next < panels) {
      const SplitPanel parts(p.weights[0], next);
      for (int k = 0; k < kMostParts; ++k) parts.fetch(p.weights[0], k);
    }
    multiply_all_parts(finish, group, row, panel);
    least = std::max(least, largest_of(finish.e.best[row]));
    panel = next;
  }
  s.counts[worker.index].multiplied += multiplied;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_PRUNED_ARGMAX_INL_H

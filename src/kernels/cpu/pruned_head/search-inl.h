// search-inl.h: the largest product of a row with a weight in parts, by upper bounds of the
// products of each panel.
//
// The upper part gives an estimate of every output: a code is within 7.5 of the middle of those
// with the same upper bits, so an output is within 7.5 sum |d x| of the estimate. Panels whose
// upper bound is below an output that is known, the threshold, are pruned. The others, candidates,
// are estimated again with the middle part, to within 3.5 sum |d x|, and those that are not pruned
// by that are multiplied as a whole, as they are without all this.
#if defined(VEERY_KERNELS_CPU_SEARCH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_SEARCH_INL_H
#undef VEERY_KERNELS_CPU_SEARCH_INL_H
#else
#define VEERY_KERNELS_CPU_SEARCH_INL_H
#endif

#include <bit>
#include <cmath>
#include <cstdlib>

#include "kernels/cpu/codec/panel_types-inl.h"
#include "kernels/cpu/codec/split.h"
#include "kernels/cpu/linear/epilogue-inl.h"
#include "kernels/cpu/linear/rows-inl.h"
#include "kernels/cpu/pruned_head/search_memory.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Floats as integers in the same order, all above 0.
inline uint32_t by_order(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
inline float from_order(uint32_t v) {
  if (v == 0) return -HUGE_VALF;
  return std::bit_cast<float>(v >> 31 != 0 ? v & 0x7FFFFFFFU : ~v);
}

/// An output that there is, for all workers: they raise it as they find larger ones.
class Threshold {
 public:
  explicit Threshold(SearchRun& run, int64_t row = 0) : word_(run.threshold[row]) {}
  float value() const { return from_order(word_.load(std::memory_order_relaxed)); }
  void raise(float to) {
    uint32_t so_far = word_.load(std::memory_order_relaxed);
    while (so_far < by_order(to) &&
           !word_.compare_exchange_weak(so_far, by_order(to), std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<uint32_t>& word_;
};

/// Of row r of two, in 8 quads.
inline int32_t sum_of_magnitudes(const int8_t* quads, int r) {
  int32_t sum = 0;
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 4; ++i) sum += std::abs(quads[(2 * j + r) * 4 + i]);
  return sum;
}

/// How far a code may be from the middle of those with the same upper bits, `kLeft` others.
template <int kLeft>
constexpr float kRadius = ((1 << kLeft) - 1) / 2.0F;
template <int kLeft>
constexpr float kStep = 1 << kLeft;
constexpr int kAfterUpper = SplitPanels::kMiddleBits + SplitPanels::kLowerBits;
constexpr int kAfterMiddle = SplitPanels::kLowerBits;

// An output is a sum of some terms, of up to 128 |d x|; it is rounded as often as it has terms,
// here and in the product. The bound, of kRadius |d x|, grows by four times as much.
inline float with_rounding(int64_t blocks) {
  return 1 + 4 * 128 / kRadius<kAfterMiddle> * static_cast<float>(2 * blocks + 16) * 0x1p-24F;
}

void sum_row(const ActivationGroup& g, int64_t blocks, const SearchMemory& s) {
  const float times = with_rounding(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    s.moment[b] = g.moment[2 * b] + g.moment[2 * b + 1];
    s.magnitude[b] = 0;
    for (int r = 0; r < 2; ++r)
      s.magnitude[b] +=
          times * g.scale[2 * b + r] * static_cast<float>(sum_of_magnitudes(g.quads + 64 * b, r));
  }
}

/// Of a panel, for each unit of kRadius: what the middle of its outputs is above the products of
/// the codes without their lower bits, and how far from that they may be.
struct Spread {
  F32 moment;
  F32 magnitude;
};
HWY_INLINE Spread spread_of(const uint8_t* upper, int64_t blocks, const SearchMemory& s) {
  Spread spread = {zero(), zero()};
  for (int64_t b = 0; b < blocks; ++b) {
    const F32 d = load_f16(upper + b * SplitPanels::kUpper + SplitPanels::kScale);
    spread.moment = fma(d, set(s.moment[b]), spread.moment);
    spread.magnitude = fma(abs(d), set(s.magnitude[b]), spread.magnitude);
  }
  return spread;
}
/// y: of both terms and of the codes without their lower kLeft bits.
template <int kLeft>
HWY_INLINE F32 estimate_of(const float* y, const Spread& spread) {
  const F32 both = add(load(y), load(y + kLanes));
  return fma(spread.moment, set(kRadius<kLeft>), mul(both, set(kStep<kLeft>)));
}
/// No output of the panel is larger.
template <int kLeft>
HWY_INLINE float bound_of(F32 estimate, const Spread& spread) {
  const F32 bound = fma(spread.magnitude, set(kRadius<kLeft>), estimate);
  // What is no number might hide anything.
  return max_of(select(greater(bound, set(-HUGE_VALF)), bound, set(HUGE_VALF)));
}

HWY_INLINE float largest_of(const Best& best) { return max_of(load(best.value)); }

/// A group of rows: row `row` of x, and the residual of its int8 values.
inline ActivationGroup searched_row(const Product& p, const Worker& worker, int64_t row = 0) {
  constexpr auto kForm = Activations::kPer32;
  return activation_group(kForm, worker.scratch + 2 * row * activation_row_bytes(kForm, p.cols),
                          p.cols, 2);
}

/// A panel of SplitPanels.
struct SplitPanel {
  const std::byte* parts[kMostParts];

  SplitPanel(const Weight& w, int64_t panel)
      : parts{w.part(0, panel), w.part(1, panel), w.part(2, panel)} {}
  void fetch(const Weight& w, int k) const {
    prefetch(reinterpret_cast<const uint8_t*>(parts[k]), 0,
             static_cast<int>(w.parts[static_cast<size_t>(k)].stride));
  }
};

/// The products of a panel as a whole with a row, into the largest ones that the epilogue has.
void multiply_whole(const Finish& finish, const ActivationGroup& group, int64_t row,
                    int64_t panel) {
  const Weight& w = finish.p.weights[0];
  float y[2 * kLanes];
  w.kernels->direct[0][1](SplitPanel(w, panel).parts, group, finish.p.cols, {finish.p.ahead, 0}, y);
  finish(0, panel, 2 * row, 2, y, y);
}
/// The largest product of a panel with a row, after the epilogue.
inline float largest_product(const Dispatch& d, const Product& p, const ActivationGroup& group,
                             int64_t panel) {
  Best best;
  start_best(reinterpret_cast<std::byte*>(&best), 1, 0);
  multiply_whole({epilogue(d, &best), p}, group, 0, panel);
  return largest_of(best);
}

/// The search of one worker, of its share of the panels.
class Search {
 public:
  Search(const Dispatch& d, const Product& p, const Worker& worker, const SearchMemory& s)
      : d_(d), p_(p), worker_(worker), s_(s), row_(searched_row(p, worker)), threshold_(*s.run) {
    sum_row(row_, blocks_, s);
  }

  // Finds a bound of every panel.
  void scan() {
    const Share panels = p_.share_of(0, worker_);
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const std::byte* upper = upper_.data + panel * upper_.stride;
      const Spread spread = spread_of(reinterpret_cast<const uint8_t*>(upper), blocks_, s_);
      if (s_.run->together)
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
    s_.bounds[panel] = bound_of<kAfterUpper>(estimate_of<kAfterUpper>(y, spread), spread);
    return could_be_largest(s_.bounds[panel]);
  }

  // Until the middle part has come from memory; but at first any output is worth the wait.
  void defer(const Candidate& candidate) {
    if (!(threshold_.value() > -HUGE_VALF)) return refine(candidate, {});
    SplitPanel(p_.weights[0], candidate.panel).fetch(p_.weights[0], 1);
    if (put_ - taken_ == kDeferred) refine(deferred_[taken_++ % kDeferred], {});
    deferred_[put_++ % kDeferred] = candidate;
  }

  // Estimates the outputs with the middle part.
  void refine(const Candidate& candidate, Ahead ahead) {
    float y[2 * kLanes];
    multiply_two_parts_(SplitPanel(p_.weights[0], candidate.panel).parts, row_, p_.cols, ahead, y);
    const F32 estimate = estimate_of<kAfterMiddle>(y, candidate.spread);
    if (could_be_largest(bound_of<kAfterUpper>(estimate, candidate.spread))) ++counts_.candidates;
    s_.bounds[candidate.panel] = bound_of<kAfterMiddle>(estimate, candidate.spread);
    // The panel that seems to hold the largest yet.
    if (max_of(estimate) * scale_ > threshold_.value())
      threshold_.raise(largest_product(d_, p_, row_, candidate.panel));
  }

  const Dispatch& d_;
  const Product& p_;
  const Worker& worker_;
  const SearchMemory& s_;
  const PanelPart upper_ = p_.weights[0].parts[0];
  const int64_t blocks_ = p_.cols / 32;
  const float scale_ = d_.as<LinearAttr>().scale;
  const ActivationGroup row_;
  // The upper part is a matrix of Q4_0.
  const DirectFn multiply_upper_ = block_kernels(kTarget, DType::kQ4_0)->direct[0][1];
  const DirectFn multiply_two_parts_ = split_kernels(kTarget).five_bits[1];
  Threshold threshold_;
  Candidate deferred_[kDeferred];
  int64_t put_ = 0, taken_ = 0;
  SearchCounts counts_ = {};
};

/// Multiplies the panels whose bounds reach the threshold of a row with it. Workers take turns.
void multiply_candidates(const Finish& finish, const Worker& worker, const SearchMemory& s,
                         int64_t row) {
  const Product& p = finish.p;
  const ActivationGroup group = searched_row(p, worker, row);
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
    multiply_whole(finish, group, row, panel);
    least = std::max(least, largest_of(finish.e.best[row]));
    panel = next;
  }
  s.counts[worker.index].multiplied += multiplied;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_SEARCH_INL_H

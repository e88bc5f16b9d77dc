// linear_screen-inl.h: the largest product of a row with a split weight, of which the upper part,
// some of the middle and little of the lower one are read.
//
// The upper part gives every output but for a rest: that of a code is within 7.5 of the middle of
// those with the same upper bits, so all rests of an output are at most 7.5 sum |d x|. Panels whose
// largest possible output is below one that is known cannot hold the largest. The others are looked
// at again with the middle part, which leaves 3.5 sum |d x|, and where that does not do, they are
// multiplied as a whole, as they are without all this.
#if defined(VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H
#endif

#include <bit>
#include <cmath>
#include <cstdlib>

#include "kernels/cpu/linear/linear_finish-inl.h"
#include "kernels/cpu/linear/linear_multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

inline SearchState& search_state(const Dispatch& d) {
  return *reinterpret_cast<SearchState*>(d.state);
}
inline bool is_screened(const Dispatch& d, const Product& p) {
  return p.two_terms && p.rows == 2 && p.weights[0].split && !d.in[LinearIn::kBias] &&
         !d.in[LinearIn::kResidual] && d.as<LinearAttr>().scale > 0 && search_state(d).pause == 0;
}

/// Where what is found out about the panels stands.
struct Screen {
  Searched* searched;  ///< [workers]
  float* most;         ///< [panels] no output of a panel is larger
  float* moment;       ///< [blocks] of the row, of this worker: sums of x
  float* magnitude;    ///< [blocks] of |x|, and more for roundings
};

inline Screen screen_of(const Dispatch& d, const Product& p, const Worker& worker) {
  Screen s;
  s.searched = reinterpret_cast<Searched*>(d.work + p.best_bytes(true, worker));
  s.most = reinterpret_cast<float*>(s.searched + worker.count);
  s.moment = reinterpret_cast<float*>(worker.scratch + p.activation_bytes() + p.expanded_bytes());
  s.magnitude = s.moment + p.cols / 32;
  return s;
}

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
class Reached {
 public:
  explicit Reached(const Dispatch& d) : word_(search_state(d).reached) {}
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
constexpr float kRest = ((1 << kLeft) - 1) / 2.0F;
template <int kLeft>
constexpr float kStep = 1 << kLeft;
constexpr int kAfterUpper = SplitPanels::kMiddleBits + SplitPanels::kLowerBits;
constexpr int kAfterMiddle = SplitPanels::kLowerBits;

// An output is a sum of some terms, of up to 128 |d x|; it is rounded as often as it has terms,
// here and in the product. The bound, of kRest |d x|, grows by four times as much.
inline float with_rounding(int64_t blocks) {
  return 1 + 4 * 128 / kRest<kAfterMiddle> * static_cast<float>(2 * blocks + 16) * 0x1p-24F;
}

void sum_row(const ActivationGroup& g, int64_t blocks, const Screen& s) {
  const float times = with_rounding(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    s.moment[b] = g.moment[2 * b] + g.moment[2 * b + 1];
    s.magnitude[b] = 0;
    for (int r = 0; r < 2; ++r)
      s.magnitude[b] +=
          times * g.scale[2 * b + r] * static_cast<float>(sum_of_magnitudes(g.quads + 64 * b, r));
  }
}

/// What the rests of a panel's outputs are around, and how far from it at most, but for kRest.
struct Rests {
  F32 moment;
  F32 magnitude;
};
HWY_INLINE Rests rests_of(const uint8_t* upper, int64_t blocks, const Screen& s) {
  Rests rests = {zero(), zero()};
  for (int64_t b = 0; b < blocks; ++b) {
    const F32 d = load_f16(upper + b * SplitPanels::kUpper + SplitPanels::kScale);
    rests.moment = fma(d, set(s.moment[b]), rests.moment);
    rests.magnitude = fma(abs(d), set(s.magnitude[b]), rests.magnitude);
  }
  return rests;
}
/// y: of both terms and of the codes without their lower kLeft bits.
template <int kLeft>
HWY_INLINE F32 centre_of(const float* y, const Rests& rests) {
  const F32 both = add(load(y), load(y + kLanes));
  return fma(rests.moment, set(kRest<kLeft>), mul(both, set(kStep<kLeft>)));
}
template <int kLeft>
HWY_INLINE float most_of(F32 centre, const Rests& rests) {
  const F32 most = fma(rests.magnitude, set(kRest<kLeft>), centre);
  // What is no number might hide anything.
  return max_of(select(greater(most, set(-HUGE_VALF)), most, set(HUGE_VALF)));
}

HWY_INLINE float largest_of(const Best& best) { return max_of(load(best.value)); }

/// The search of one worker, of its share of the panels.
class Search {
 public:
  Search(const Finish& finish, const Worker& worker, const Screen& s)
      : finish_(finish), worker_(worker), s_(s), reached_(finish.d) {
    sum_row(row_, blocks_, s);
  }

  // Says of all panels what they could hold at most.
  void look() {
    const Share panels = p_.share_of(0, worker_);
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const SplitParts parts = parts_of(p_.weights[0].data, at_, panel);
      const Rests rests = rests_of(parts.upper, blocks_, s_);
      if (search_state(finish_.d).finer != 0)
        look_again({panel, rests}, {p_.ahead, 0});
      else if (is_doubtful(panel, parts.upper, rests))
        put_off({panel, rests});
    }
    for (; taken_ != put_; ++taken_) look_again(doubts_[taken_ % kDoubts], {});
    s_.searched[worker_.index] = searched_;
  }

 private:
  struct Doubt {
    int64_t panel;
    Rests rests;
  };
  static constexpr int kDoubts = 2;

  bool could_be_largest(float most) const { return !(most * scale_ < reached_.value()); }

  bool is_doubtful(int64_t panel, const uint8_t* upper, const Rests& rests) {
    float y[2 * kLanes];
    const auto* packed = reinterpret_cast<const std::byte*>(upper);
    multiply_upper_(&packed, row_, p_.cols, {p_.ahead, 0}, y);
    s_.most[panel] = most_of<kAfterUpper>(centre_of<kAfterUpper>(y, rests), rests);
    return could_be_largest(s_.most[panel]);
  }

  // Until the middle part has come from memory; but at first any output is worth the wait.
  void put_off(const Doubt& doubt) {
    if (!(reached_.value() > -HUGE_VALF)) return look_again(doubt, {});
    prefetch(parts_of(p_.weights[0].data, at_, doubt.panel).middle, 0,
             static_cast<int>(at_.middle_bytes()));
    if (put_ - taken_ == kDoubts) look_again(doubts_[taken_++ % kDoubts], {});
    doubts_[put_++ % kDoubts] = doubt;
  }

  void look_again(const Doubt& doubt, Ahead ahead) {
    const std::byte* w = p_.weights[0].data;
    const std::byte* parts[] = {w + at_.upper(doubt.panel), w + at_.middle(doubt.panel)};
    float y[2 * kLanes];
    p_.weights[0].kernels->direct_two_parts(parts, row_, p_.cols, ahead, y);
    const F32 centre = centre_of<kAfterMiddle>(y, doubt.rests);
    if (could_be_largest(most_of<kAfterUpper>(centre, doubt.rests))) ++searched_.doubtful;
    s_.most[doubt.panel] = most_of<kAfterMiddle>(centre, doubt.rests);
    if (max_of(centre) * scale_ > reached_.value()) reach(doubt.panel);
  }

  // Finds out what the panel that seems to hold the largest output yet holds indeed.
  void reach(int64_t panel) {
    Best best;
    start_best(reinterpret_cast<std::byte*>(&best), 1, 0);
    multiply_panels(p_, worker_.scratch, worker_.scratch + p_.activation_bytes(), 0,
                    {panel, panel + 1}, Finish{finish_.d, p_, &best});
    reached_.raise(largest_of(best));
  }

  const Finish& finish_;
  const Worker& worker_;
  const Screen& s_;
  const Product& p_ = finish_.p;
  const SplitPanels at_{p_.weights[0].rows, p_.cols};
  const int64_t blocks_ = p_.cols / 32;
  const float scale_ = finish_.d.as<LinearAttr>().scale;
  const ActivationGroup row_ = activation_group(
      Activations::kPer32, p_.group(worker_.scratch, static_cast<int>(Activations::kPer32), 0),
      p_.cols, 2);
  const DirectFn multiply_upper_ = block_kernels(kTarget, DType::kQ4_0)->direct[0][1];
  Reached reached_;
  Doubt doubts_[kDoubts];
  int64_t put_ = 0, taken_ = 0;
  Searched searched_ = {};
};

void settle_panels(const Finish& finish, const Worker& worker, const Screen& s) {
  const Product& p = finish.p;
  const SplitPanels at(p.weights[0].rows, p.cols);
  const float scale = finish.d.as<LinearAttr>().scale;
  const int64_t panels = p.weights[0].panels();
  float least = Reached(finish.d).value();
  const auto next_after = [&](int64_t panel) {
    do panel += worker.count;
    while (panel < panels && s.most[panel] * scale < least);
    return panel;
  };
  int64_t panel = next_after(worker.index - worker.count);
  int32_t settled = 0;
  for (; panel < panels; ++settled) {
    const int64_t next = next_after(panel);
    if (next < panels) {
      const SplitParts parts = parts_of(p.weights[0].data, at, next);
      prefetch(parts.upper, 0, static_cast<int>(at.upper_bytes()));
      prefetch(parts.middle, 0, static_cast<int>(at.middle_bytes()));
      prefetch(parts.lower, 0, static_cast<int>(at.lower_bytes()));
    }
    multiply_panels(p, worker.scratch, worker.scratch + p.activation_bytes(), 0, {panel, panel + 1},
                    finish);
    least = std::max(least, largest_of(*finish.best));
    panel = next;
  }
  s.searched[worker.index].settled = settled;
}

// By one worker, when all is settled: whether the next runs shall search, and how. Pauses double.
void note_search(const Product& p, const Worker& worker, const Screen& s, SearchState& state) {
  constexpr int32_t kLongest = 127;
  int64_t doubtful = 0;
  int64_t settled = 0;
  for (int i = 0; i < worker.count; ++i) {
    doubtful += s.searched[i].doubtful;
    settled += s.searched[i].settled;
  }
  const int64_t panels = p.weights[0].panels();
  const int64_t read = panels * SplitPanels::kUpper + doubtful * SplitPanels::kMiddle +
                       settled * SplitPanels::kWhole;
  const bool pays = read < panels * SplitPanels::kWhole;
  state.next = pays ? 0 : std::min(2 * state.next + 1, kLongest);
  state.pause = state.next;
  state.finer = 2 * doubtful > panels ? 1 : 0;
  state.reached = 0;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H

// linear_screen-inl.h: the largest product of a row with a split weight, of which only the upper
// part and little of the lower one are read.
//
// The upper part gives every output but for a rest: that of a code is -4 to 3 around the middle of
// those with the same upper bits, so all rests of an output are at most 4 sum |d x|. Panels whose
// largest possible output is below one that is known cannot hold the largest; the others are
// multiplied as a whole, as they are without all this.
#if defined(VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H
#endif

#include <cmath>
#include <cstdlib>

#include "kernels/cpu/linear_finish-inl.h"
#include "kernels/cpu/linear_multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

inline bool is_screened(const Dispatch& d, const Product& p) {
  return p.rows == 1 && p.weights[0].split && !d.in[kBias] && !d.in[kResidual] &&
         d.as<LinearAttr>().scale > 0 && reinterpret_cast<SearchState*>(d.state)->pause == 0;
}

/// Where what is found out about the panels stands.
struct Screen {
  Guess* guesses;  ///< [workers]
  float* most;     ///< [panels] no output of a panel is larger
  float* centre;   ///< [blocks] of the row, of this worker: times d what the rests are around
  float* radius;   ///< [blocks] times |d| how far from it they are at most
};

inline Screen screen_of(const Dispatch& d, const Product& p, const Worker& worker) {
  Screen s;
  s.guesses = reinterpret_cast<Guess*>(d.work + p.best_bytes(true, worker));
  s.most = reinterpret_cast<float*>(s.guesses + worker.count);
  s.centre = reinterpret_cast<float*>(worker.scratch + p.activation_bytes() + p.expanded_bytes());
  s.radius = s.centre + p.cols / 32;
  return s;
}

inline int32_t sum_of_magnitudes(const int8_t* q) {
  int32_t sum = 0;
  for (int i = 0; i < 32; ++i) sum += std::abs(q[i]);
  return sum;
}

// An output is a sum of some terms, whose magnitudes are together at most 32 times the radius; it
// is rounded as often as it has terms, here and in the product. The radius grows by more than that.
inline float with_rounding(int64_t blocks) {
  return 1 + 128 * static_cast<float>(2 * blocks + 16) * 0x1p-24F;
}

constexpr float kStep = 1 << SplitPanels::kLowerBits;
constexpr float kRest = kStep / 2;

void set_rests(const ActivationGroup& g, int64_t blocks, const Screen& s) {
  const float times = kRest * with_rounding(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    s.centre[b] = kRest * g.moment[b];
    s.radius[b] = times * g.scale[b] * static_cast<float>(sum_of_magnitudes(g.quads + 32 * b));
  }
  for (int32_t e = 0; e < g.extra[0]; ++e)
    s.radius[g.loud[e].block] +=
        times * g.loud[e].scale * static_cast<float>(sum_of_magnitudes(g.loud[e].rest));
}

ActivationGroup screened_row(const Product& p, const Worker& worker) {
  constexpr auto kForm = Activations::kPer32;
  return activation_group(kForm, p.group(worker.scratch, static_cast<int>(kForm), 0), p.cols, 1);
}

void screen_panels(const Product& p, const Worker& worker, const Screen& s) {
  const ActivationGroup g = screened_row(p, worker);
  const SplitPanels at(p.weights[0].rows, p.cols);
  const DirectFn multiply_upper = block_kernels(kTarget, DType::kQ5_0)->direct[0][0];
  const int64_t blocks = p.cols / 32;
  set_rests(g, blocks, s);
  Guess guess = {-HUGE_VALF, 0, 0};
  const Share panels = p.share_of(0, worker);
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    const std::byte* upper = p.weights[0].data + at.upper(panel);
    float y[kLanes];
    multiply_upper(&upper, g, p.cols, {p.ahead, 0}, y);
    F32 centre = mul(load(y), set(kStep));
    F32 radius = zero();
    for (int64_t b = 0; b < blocks; ++b) {
      const F32 d = load_f16(upper + b * SplitPanels::kUpper + SplitPanels::kScale);
      centre = fma(d, set(s.centre[b]), centre);
      radius = fma(abs(d), set(s.radius[b]), radius);
    }
    const F32 most = add(centre, radius);
    // What is no number might hide anything.
    s.most[panel] = max_of(select(greater(most, set(-HUGE_VALF)), most, set(HUGE_VALF)));
    const float value = max_of(centre);
    if (value > guess.value) guess = {value, static_cast<int32_t>(panel), 0};
  }
  s.guesses[worker.index] = guess;
}

HWY_INLINE float largest_of(const Best& best) { return max_of(load(best.value)); }

void settle_panels(const Finish& finish, const Worker& worker, const Screen& s) {
  const Product& p = finish.p;
  const SplitPanels at(p.weights[0].rows, p.cols);
  const float scale = finish.d.as<LinearAttr>().scale;
  const auto multiply_panel = [&](int64_t panel) {
    multiply_panels(p, worker.scratch, worker.scratch + p.activation_bytes(), 0, {panel, panel + 1},
                    finish);
  };
  const Guess* first =
      std::max_element(s.guesses, s.guesses + worker.count,
                       [](const Guess& a, const Guess& b) { return a.value < b.value; });
  multiply_panel(first->panel);
  const int64_t panels = p.weights[0].panels();
  const auto next_after = [&](int64_t panel, float least) {
    do panel += worker.count;
    while (panel < panels && s.most[panel] * scale < least);
    return panel;
  };
  float least = largest_of(*finish.best);
  int64_t panel = next_after(worker.index - worker.count, least);
  int32_t settled = 0;
  for (; panel < panels; ++settled) {
    const int64_t next = next_after(panel, least);
    if (next < panels) {
      const auto* w = reinterpret_cast<const uint8_t*>(p.weights[0].data);
      prefetch(w, at.upper(next), static_cast<int>(at.upper_bytes()));
      prefetch(w, at.lower(next), static_cast<int>(at.lower_bytes()));
    }
    multiply_panel(panel);
    least = largest_of(*finish.best);
    panel = next;
  }
  s.guesses[worker.index].settled = settled;
}

// By one worker, when all is settled: whether the next runs shall search. Pauses double.
void note_search(const Product& p, const Worker& worker, const Screen& s, SearchState& state) {
  constexpr int32_t kLongest = 127;
  int64_t settled = 0;
  for (int i = 0; i < worker.count; ++i) settled += s.guesses[i].settled;
  const int64_t read = settled * SplitPanels::kWhole + p.weights[0].panels() * SplitPanels::kUpper;
  const bool pays = read < p.weights[0].panels() * SplitPanels::kWhole;
  state.next = pays ? 0 : std::min(2 * state.next + 1, kLongest);
  state.pause = state.next;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_SCREEN_INL_H

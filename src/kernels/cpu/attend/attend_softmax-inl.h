// attend_softmax-inl.h: online softmax: scores of a block become weights, and states merge.
#if defined(VEERY_KERNELS_CPU_ATTEND_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ATTEND_SOFTMAX_INL_H
#undef VEERY_KERNELS_CPU_ATTEND_SOFTMAX_INL_H
#else
#define VEERY_KERNELS_CPU_ATTEND_SOFTMAX_INL_H
#endif

#include "kernels/cpu/attend/attend.h"
#include "kernels/cpu/attend/attend_tiles-inl.h"
#include "kernels/cpu/simd/bf16_dot.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace attend;  // NOLINT(google-build-using-namespace)

// Returns how many of `left` queries to process next: groups of nearly equal size.
int take(int left) {
  const int groups = (left + kMaxQueries - 1) / kMaxQueries;
  return (left + groups - 1) / groups;
}

// Two states rescaled to a common largest score: kept * factors[0] + added * factors[1].
struct Merged {
  float largest, sum;
  float factors[2];
};
HWY_INLINE Merged merge(float largest, float total, float added_largest, float added_sum) {
  const bool grows = added_largest > largest;
  // For the first scores the rescaling factor exp(kNothing - largest) would be 0, so exp() is
  // skipped.
  if (grows && largest == kNothing) return {added_largest, added_sum, {0, 1}};
  const float low = grows ? largest : added_largest;
  const float high = grows ? added_largest : largest;
  alignas(64) float shrink[16];
  store(shrink, exp_to_88(set(low - high)));
  const float kept = grows ? shrink[0] : 1;
  const float added = grows ? 1 : shrink[0];
  return {high, __builtin_fmaf(added_sum, added, total * kept), {kept, added}};
}

// The positions [low, high] of a block that a query sees. With ALiBi (slope != 0), slope * |i -
// own| is subtracted from the score of position i of the block.
struct Visibility {
  int low, high;
  float slope, own;

  bool is_edge(int t) const { return t * 16 < low || t * 16 + 15 > high; }
};

// Returns the positions of tile t in their block, as floats.
HWY_INLINE F32 positions_of(int t) {
  alignas(64) static constexpr float kLane[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                8, 9, 10, 11, 12, 13, 14, 15};
  return add(load(kLane), set(static_cast<float>(t * 16)));
}

// Replaces lanes of tile t that the query does not see by `other`.
HWY_INLINE F32 only(int t, const Visibility& seen, F32 x, float other) {
  const F32 position = positions_of(t);
  const F32 low = set(static_cast<float>(seen.low) - 0.5F);
  const F32 high = set(static_cast<float>(seen.high) + 0.5F);
  const F32 from = select(greater(position, low), x, set(other));
  return select(greater(high, position), from, set(other));
}

// Stores tile t of the weights of a query, rounded to bf16 unless kExact.
template <Products kProducts>
HWY_INLINE void store_weights(float* weights, int t, F32 w) {
  if constexpr (kProducts == Products::kExact) return store(weights + t * 16, w);
  if constexpr (kProducts == Products::kRounded)
    return store(weights + t * 16, as_float(round_to_bf16(flush(w))));
#if HWY_TARGET == HWY_AVX3
  store_bf16(weights + t * 8, w);
#endif
}

// Converts the scores of one query in tiles [first, end) of a block to weights, in place, and
// merges their largest score and sum into `state`. Weights of positions that it does not see are 0.
template <Products kProducts>
HWY_INLINE void weigh(const AttendAttr& attr, float* scores, int first, int end,
                      const Visibility& seen, float* state, float* factors) {
  const bool changed = attr.softcap > 0 || seen.slope != 0;
  F32 most = set(kNothing);
  for (int t = first; t < end; ++t) {
    F32 s = load(scores + t * 16);
    const bool edge = seen.is_edge(t);
    if (attr.softcap > 0) s = mul(set(attr.softcap), tanh(div(s, set(attr.softcap))));
    if (seen.slope != 0) {
      const F32 distance = sub(positions_of(t), set(seen.own));
      s = fma(set(seen.slope), min(distance, sub(zero(), distance)), s);
    }
    if (edge) s = only(t, seen, s, kNothing);
    if (edge || changed) store(scores + t * 16, s);
    most = max(most, s);
  }
  const float largest = max_of(most);
  F32 total = zero();
  for (int t = first; t < end; ++t) {
    F32 w = exp_to_88(sub(load(scores + t * 16), set(largest)));
    if (seen.is_edge(t)) w = only(t, seen, w, 0);
    store_weights<kProducts>(scores, t, w);
    total = add(total, w);
  }
  const Merged m = merge(state[0], state[1], largest, sum(total));
  state[0] = m.largest;
  state[1] = m.sum;
  factors[0] = m.factors[0];
  factors[1] = m.factors[1];
}

using WeighFn = void (*)(const AttendAttr&, float*, int, int, const Visibility&, float*, float*);
HWY_INLINE WeighFn weigh_for(KvFormat values) {
  if (!in_pairs(values)) return weigh<Products::kExact>;
  return is_dot(values) ? weigh<Products::kDot> : weigh<Products::kRounded>;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ATTEND_SOFTMAX_INL_H

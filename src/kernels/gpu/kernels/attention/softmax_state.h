// attend_states.h: largest score, sum of weights and weighted values of a query over some
// positions, and how those of many blocks of positions become one.
#pragma once
#include "kernels/gpu/kernels/rope.h"
#include "kernels/gpu/smem/attend_smem.h"

namespace veery::gpu {

VEERY_CONSTANT int kPartialHeader = 16;
VEERY_CONSTANT float kNoScore = -3e38F;
VEERY_CONSTANT int kSingleBlockSegments = 16;  ///< the first blocks are segments of their own
VEERY_CONSTANT int kMaxDirectMerge = 4;        ///< that are merged without a Chain

/// How elements of the cache are multiplied. bf16: queries and weights are rounded to it, of a pair
/// the odd one comes first, and subnormal numbers count as 0.
template <typename T>
struct Element;
struct BF16 {
  uint16_t bits;
};
/// bf16 that tensor cores multiply: subnormal elements stay what they are, and sums are those of
/// mma_m16n8k16_bf16(), 16 dimensions, or positions, after the other.
struct BF16Mma : BF16 {};
struct F16 {
  uint16_t bits;
};
template <>
struct Element<BF16> {
  static VEERY_GPU float load(BF16 x) { return bf16_to_float(x.bits); }
  static VEERY_GPU float at(const VEERY_DEVICE BF16* x) { return bf16_to_float(x->bits); }
  /// Two neighbours, the first of which lies at a multiple of what they take.
  static VEERY_GPU Two<float> two(const VEERY_DEVICE BF16* x) {
    const uint32_t bits = *reinterpret_cast<const VEERY_DEVICE uint32_t*>(x);
    return {bits_to_float(static_cast<int32_t>(bits << 16)),
            bits_to_float(static_cast<int32_t>(bits & 0xffff0000U))};
  }
  static VEERY_GPU void put(VEERY_SHARED BF16* at, float x) { at->bits = float_to_bf16(x); }
  static VEERY_GPU float rounded(float x) {
    return bf16_to_float(float_to_bf16(flush_subnormal(x)));
  }
  static VEERY_GPU float multiply_add(float a, float b, float c) { return fma_ftz(a, b, c); }
  static VEERY_GPU float multiply(float a, float b) { return mul_ftz(a, b); }
  static VEERY_GPU float divide(float a, float b) {
    return flush_subnormal(flush_subnormal(a) / b);
  }
  VEERY_STATIC bool kPairs = true, kMma = false;
};
template <>
struct Element<BF16Mma> : Element<BF16> {
  VEERY_STATIC bool kMma = true;
};
template <typename T>
struct Element {
  static VEERY_GPU float load(F16 x) { return f16_to_float(x.bits); }
  static VEERY_GPU float load(float x) { return x; }
  static VEERY_GPU float at(const VEERY_DEVICE F16* x) { return f16_to_float(x->bits); }
  static VEERY_GPU float at(const VEERY_DEVICE float* x) { return *x; }
  static VEERY_GPU Two<float> two(const VEERY_DEVICE F16* x) {
    const uint32_t bits = *reinterpret_cast<const VEERY_DEVICE uint32_t*>(x);
    return {f16_to_float(static_cast<uint16_t>(bits & 0xffffU)),
            f16_to_float(static_cast<uint16_t>(bits >> 16))};
  }
  static VEERY_GPU Two<float> two(const VEERY_DEVICE float* x) {
    return veery::gpu::load<Two<float>>(x);
  }
  static VEERY_GPU void put(VEERY_SHARED F16* at, float x) { at->bits = float_to_f16(x); }
  static VEERY_GPU void put(VEERY_SHARED float* at, float x) { *at = x; }
  static VEERY_GPU float rounded(float x) { return x; }
  static VEERY_GPU float multiply_add(float a, float b, float c) { return fma(a, b, c); }
  static VEERY_GPU float multiply(float a, float b) { return a * b; }
  static VEERY_GPU float divide(float a, float b) { return a / b; }
  VEERY_STATIC bool kPairs = false, kMma = false;
};

/// How two sets of scores are brought to one largest: kept * keep + added * add.
struct SoftmaxMerge {
  float max_score, sum, keep, add;
};
template <typename T>
VEERY_GPU SoftmaxMerge merge(float max_score, float sum, float other, float other_sum) {
  const bool grows = other > max_score;
  if (grows && max_score == kNoScore) return {other, other_sum, 0, 1};
  const float low = grows ? max_score : other;
  const float high = grows ? other : max_score;
  const float shrink = exp_clamped(low - high);
  const float keep = grows ? shrink : 1.0F;
  const float add = grows ? 1.0F : shrink;
  return {high, Element<T>::multiply_add(other_sum, add, Element<T>::multiply(sum, keep)), keep,
          add};
}

/// Of one query: largest score, sum of weights, and this thread's dimensions of the values.
template <int kDims>
struct State {
  float max_score = kNoScore, sum = 0;
  float values[kDims] = {};

  VEERY_GPU void clear() { *this = {}; }
  template <typename T>
  VEERY_GPU void merge_in(const VEERY_THREAD State& other) {
    const SoftmaxMerge m = merge<T>(max_score, sum, other.max_score, other.sum);
    max_score = m.max_score;
    sum = m.sum;
    add<T>(other.values, m.keep, m.add);
  }
  /// The values alone.
  template <typename T>
  VEERY_GPU void add(const VEERY_THREAD float (&other)[kDims], float keep, float add) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i)
      values[i] = Element<T>::multiply_add(other[i], add, Element<T>::multiply(values[i], keep));
  }
};

/// Segments (attend.h of the CPU): 16 of one block, 16 of two, 16 of four ...; whether one ends
/// behind block `b`.
VEERY_GPU bool ends_segment(int64_t b) {
  const auto own = static_cast<int32_t>(b);
  int32_t begin = 0;
  for (int32_t length = 1, size = 0; size < 7; ++size, length *= 2) {
    const int32_t end = begin + 16 * length;
    if (own < end) return ((own - begin + 1) & (length - 1)) == 0;
    begin = end;
  }
  // The last 16 are of 128 blocks, the very last one has no end.
  return own < begin + 15 * 128 && ((own - begin + 1) & 127) == 0;
}

/// What the values of a block of positions are multiplied and added by: into its segment, and where
/// that ends the segment into the whole.
struct Factors {
  VEERY_STATIC float kOpen = -1;  ///< whole_add: the segment goes on
  float keep, add, whole_keep, whole_add;
};

/// How the states of one query are put together, found by a warp from largest scores and sums
/// alone, so that values wait for memory only. Lanes have a block of positions each and find the
/// largest score before theirs together; only the sums are chains.
template <typename T>
class MergeChain {
 public:
  /// Of the next `count` blocks, at most kWarp, of which the last of all is `last`; `parts`: the
  /// state of block `begin`. A lane gets those of block begin + lane().
  VEERY_GPU Factors find(const VEERY_DEVICE float* parts, int size, int64_t begin, int count,
                         int64_t last) {
    const VEERY_DEVICE float* own = parts + (lane() < count ? lane() : 0) * size;
    const float own_max = lane() < count ? own[0] : kNoScore;
    const float own_sum = lane() < count ? own[1] : 0.0F;
    const bool is_end = lane() < count && (begin + lane() == last || ends_segment(begin + lane()));
    const uint32_t ends = ballot(is_end), before = ends & ((1U << lane()) - 1);
    // Of the segment.
    const int first = before == 0 ? 0 : 32 - leading_zeros(before);
    const SoftmaxMerge m = step(own_max, first, before == 0 ? max_score_ : kNoScore);
    const float sum = ordered_sum(own_sum, m, count, ~0U, sum_);
    // Of all segments.
    const SoftmaxMerge w = step(is_end ? m.max_score : kNoScore, 0, total_max_);
    const float whole = ordered_sum(sum, w, count, ends, total_sum_);
    total_max_ = shuffle(w.max_score, kWarp - 1);
    total_sum_ = shuffle(whole, count - 1);
    const bool ended = (ends >> (count - 1) & 1) != 0;
    max_score_ = ended ? kNoScore : shuffle(m.max_score, count - 1);
    sum_ = ended ? 0.0F : shuffle(sum, count - 1);
    return {m.keep, m.add, w.keep, is_end ? w.add : Factors::kOpen};
  }
  VEERY_GPU float max_score() const { return total_max_; }
  VEERY_GPU float sum() const { return total_sum_; }

 private:
  // The largest of lanes `first` to this one, and `carried`.
  static VEERY_GPU float prefix_max(float max_score, int first, float carried) {
    VEERY_UNROLL(5)
    for (int by = 1; by < kWarp; by *= 2) {
      const float other = shuffle(max_score, lane() >= by ? lane() - by : lane());
      if (lane() - by >= first) max_score = max_f32(other, max_score);
    }
    return max_f32(carried, max_score);
  }
  // What a lane's state is merged with: those from `first` on, and `carried`. Not the sum.
  static VEERY_GPU SoftmaxMerge step(float max_score, int first, float carried) {
    const float all = prefix_max(max_score, first, carried);
    const float others = shuffle(all, lane() > 0 ? lane() - 1 : 0);
    return merge<T>(lane() > first ? others : carried, 0, max_score, 0);
  }
  // The sum up to a lane, of those that are in `which`.
  static VEERY_GPU float ordered_sum(float own, const VEERY_THREAD SoftmaxMerge& m, int count,
                                     uint32_t which, float sum) {
    float found = sum;
    for (int i = 0; i < count; ++i) {
      if ((which >> i & 1) != 0)
        sum = Element<T>::multiply_add(shuffle(own, i), shuffle(m.add, i),
                                       Element<T>::multiply(sum, shuffle(m.keep, i)));
      if (lane() >= i) found = sum;
    }
    return found;
  }

  float max_score_ = kNoScore, sum_ = 0, total_max_ = kNoScore, total_sum_ = 0;
};

}  // namespace veery::gpu

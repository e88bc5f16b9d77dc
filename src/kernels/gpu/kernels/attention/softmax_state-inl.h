// softmax_state-inl.h: the softmax state of a query over some positions (maximum, sum of weights,
// weighted values), and how the states of KV blocks are merged.
#pragma once
#include "kernels/gpu/kernels/rope.h"
#include "kernels/gpu/smem/attend_smem.h"

namespace veery::gpu {

VEERY_CONSTANT int kPartialHeader = 16;
VEERY_CONSTANT float kNoScore = -3e38F;
VEERY_CONSTANT int kSingleBlockSegments = 16;  ///< the first KV blocks are segments of one block
VEERY_CONSTANT int kMaxDirectMerge = 4;        ///< states that are merged without a MergeChain

/// How elements of the cache are multiplied. bf16: queries and weights are rounded to bf16, the odd
/// element of a pair comes first, and subnormal numbers are flushed to 0.
template <typename T>
struct Element;
struct BF16 {
  uint16_t bits;
};
/// bf16 multiplied by tensor cores: subnormal elements are kept, and mma_m16n8k16_bf16() adds 16
/// dimensions or positions at a time, in order.
struct BF16Mma : BF16 {};
struct F16 {
  uint16_t bits;
};
template <>
struct Element<BF16> {
  static VEERY_GPU float load(BF16 x) { return bf16_to_float(x.bits); }
  static VEERY_GPU float at(const VEERY_DEVICE BF16* x) { return bf16_to_float(x->bits); }
  /// Two neighbours; the address of the first is a multiple of their size.
  static VEERY_GPU Two<float> two(const VEERY_DEVICE BF16* x) {
    const uint32_t bits = *reinterpret_cast<const VEERY_DEVICE uint32_t*>(x);
    return {bits_to_float(static_cast<int32_t>(bits << 16)),
            bits_to_float(static_cast<int32_t>(bits & 0xffff0000U))};
  }
  static VEERY_GPU void store(VEERY_SHARED BF16* at, float x) { at->bits = float_to_bf16(x); }
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
  static VEERY_GPU void store(VEERY_SHARED F16* at, float x) { at->bits = float_to_f16(x); }
  static VEERY_GPU void store(VEERY_SHARED float* at, float x) { *at = x; }
  static VEERY_GPU float rounded(float x) { return x; }
  static VEERY_GPU float multiply_add(float a, float b, float c) { return fma(a, b, c); }
  static VEERY_GPU float multiply(float a, float b) { return a * b; }
  static VEERY_GPU float divide(float a, float b) { return a / b; }
  VEERY_STATIC bool kPairs = false, kMma = false;
};

/// How two states are rescaled to a common maximum: kept * keep + added * add.
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

/// The state of one query: maximum, sum of weights, and this thread's dimensions of the values.
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
  /// Merges the values alone.
  template <typename T>
  VEERY_GPU void add(const VEERY_THREAD float (&other)[kDims], float keep, float add) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i)
      values[i] = Element<T>::multiply_add(other[i], add, Element<T>::multiply(values[i], keep));
  }
};

/// Returns whether a segment ends after block b. Segments are those of the CPU's attend.h: 16 of
/// one KV block, 16 of two, 16 of four, and so on.
VEERY_GPU bool ends_segment(int64_t b) {
  const auto own = static_cast<int32_t>(b);
  int32_t begin = 0;
  for (int32_t length = 1, size = 0; size < 7; ++size, length *= 2) {
    const int32_t end = begin + 16 * length;
    if (own < end) return ((own - begin + 1) & (length - 1)) == 0;
    begin = end;
  }
  // The last 16 segments have 128 blocks each, except the very last one, which has all further
  // blocks.
  return own < begin + 15 * 128 && ((own - begin + 1) & 127) == 0;
}

/// Factors of a merge: a segment is multiplied by `keep` and a KV block by `add`. If the segment
/// ends there, the result is multiplied by whole_keep and the segment by whole_add.
struct Factors {
  VEERY_STATIC float kOpen = -1;  ///< whole_add if the segment continues
  float keep, add, whole_keep, whole_add;
};

/// Computes the Factors of one query, by a warp, from maxima and sums alone, so that values wait
/// for memory only. Each lane has one KV block. The running maximum is a prefix scan over the
/// lanes; only the sums are accumulated sequentially.
template <typename T>
class MergeChain {
 public:
  /// Returns the factors of the next `count` KV blocks, at most kWarp; `last` is the last one of
  /// all. `parts`: the state of block `begin`. A lane gets those of block begin + lane().
  VEERY_GPU Factors next_factors(const VEERY_DEVICE float* parts, int size, int64_t begin,
                                 int count, int64_t last) {
    const VEERY_DEVICE float* own = parts + (lane() < count ? lane() : 0) * size;
    const float lane_max = lane() < count ? own[0] : kNoScore;
    const float lane_sum = lane() < count ? own[1] : 0.0F;
    const bool is_end = lane() < count && (begin + lane() == last || ends_segment(begin + lane()));
    const uint32_t ends = ballot(is_end), before = ends & ((1U << lane()) - 1);
    // Within the segment.
    const int first = before == 0 ? 0 : 32 - leading_zeros(before);
    const SoftmaxMerge m = step(lane_max, first, before == 0 ? max_score_ : kNoScore);
    const float sum = ordered_sum(lane_sum, m, count, ~0U, sum_);
    // Over all segments.
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
  // Returns the maximum over lanes `first` to this one, and `carried`.
  static VEERY_GPU float prefix_max(float max_score, int first, float carried) {
    VEERY_UNROLL(5)
    for (int by = 1; by < kWarp; by *= 2) {
      const float other = shuffle(max_score, lane() >= by ? lane() - by : lane());
      if (lane() - by >= first) max_score = max_f32(other, max_score);
    }
    return max_f32(carried, max_score);
  }
  // Returns the merge of a lane's state with those from lane `first` on, and `carried`, without the
  // sum.
  static VEERY_GPU SoftmaxMerge step(float max_score, int first, float carried) {
    const float all = prefix_max(max_score, first, carried);
    const float others = shuffle(all, lane() > 0 ? lane() - 1 : 0);
    return merge<T>(lane() > first ? others : carried, 0, max_score, 0);
  }
  // Returns the sum up to each lane over the lanes in `which`, in order.
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

// attend_states.h: largest score, sum of weights and weighted values of a query over some
// positions, and how those of many blocks of positions become one.
#pragma once
#include "kernels/gpu/dialect/attend_places.h"
#include "kernels/gpu/functions/rows.h"

namespace veery::gpu {

VEERY_CONSTANT int kPartHeader = 16;
VEERY_CONSTANT float kNothing = -3e38F;

/// How elements of the cache are multiplied. bf16: queries and weights are rounded to it, of a pair
/// the odd one comes first, and subnormal numbers count as 0.
template <typename T>
struct Element;
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
template <>
struct Element<BF16> {
  static VEERY_GPU float load(BF16 x) { return bf16_to_float(x.bits); }
  static VEERY_GPU float at(const VEERY_DEVICE BF16* x) { return bf16_to_float(x->bits); }
  static VEERY_GPU float rounded(float x) { return bf16_to_float(float_to_bf16(flush(x))); }
  static VEERY_GPU float multiply_add(float a, float b, float c) { return fma_flushed(a, b, c); }
  static VEERY_GPU float multiply(float a, float b) { return mul_flushed(a, b); }
  static VEERY_GPU float divide(float a, float b) { return flush(flush(a) / b); }
  VEERY_STATIC bool kPairs = true;
};
template <typename T>
struct Element {
  static VEERY_GPU float load(F16 x) { return half_to_float(x.bits); }
  static VEERY_GPU float load(float x) { return x; }
  static VEERY_GPU float at(const VEERY_DEVICE F16* x) { return half_to_float(x->bits); }
  static VEERY_GPU float at(const VEERY_DEVICE float* x) { return *x; }
  static VEERY_GPU float rounded(float x) { return x; }
  static VEERY_GPU float multiply_add(float a, float b, float c) { return fma(a, b, c); }
  static VEERY_GPU float multiply(float a, float b) { return a * b; }
  static VEERY_GPU float divide(float a, float b) { return a / b; }
  VEERY_STATIC bool kPairs = false;
};

/// How two sets of scores are brought to one largest: kept * keep + added * add.
struct Merger {
  float most, sum, keep, add;
};
template <typename T>
VEERY_GPU Merger merge(float most, float sum, float other, float other_sum) {
  const bool grows = other > most;
  if (grows && most == kNothing) return {other, other_sum, 0, 1};
  const float low = grows ? most : other;
  const float high = grows ? other : most;
  const float shrink = exp_to_88(low - high);
  const float keep = grows ? shrink : 1.0F;
  const float add = grows ? 1.0F : shrink;
  return {high, Element<T>::multiply_add(other_sum, add, Element<T>::multiply(sum, keep)), keep,
          add};
}

/// Of one query: largest score, sum of weights, and this thread's dimensions of the values.
template <int kDims>
struct State {
  float most = kNothing, sum = 0;
  float values[kDims] = {};

  VEERY_GPU void clear() { *this = {}; }
  template <typename T>
  VEERY_GPU void merge_in(const VEERY_THREAD State& other) {
    const Merger m = merge<T>(most, sum, other.most, other.sum);
    most = m.most;
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
  int64_t begin = 0;
  for (int64_t length = 1, size = 0; size < 7; ++size, length *= 2) {
    const int64_t end = begin + 16 * length;
    if (b < end) return (b - begin + 1) % length == 0;
    begin = end;
  }
  // The last 16 are of 128 blocks, the very last one has no end.
  return b < begin + 15 * 128 && (b - begin + 1) % 128 == 0;
}

/// How the states of one query are put together: by what those of each block of positions, then of
/// each segment, are multiplied and added. A warp a query finds it from largest scores and sums
/// alone, so that values wait for memory only.
template <typename T>
class Chain {
 public:
  /// The next `count` blocks, at most kWarp, of which the last of all is `last`; `parts`: the state
  /// of block `begin`. Lane by lane written to `factors` [kWarp, kFactors].
  VEERY_GPU void find(const VEERY_DEVICE float* parts, int size, int64_t begin, int count,
                      int64_t last, VEERY_SHARED float* factors) {
    const VEERY_DEVICE float* own = parts + (lane() < count ? lane() : 0) * size;
    const float own_most = own[0], own_sum = own[1];
    const bool own_end = begin + lane() == last || ends_segment(begin + lane());
    const uint32_t ends = ballot(own_end);
    for (int i = 0; i < count; ++i) {
      const Merger m = merge<T>(most_, sum_, shuffle(own_most, i), shuffle(own_sum, i));
      most_ = m.most, sum_ = m.sum;
      Merger whole = {whole_most_, whole_sum_, 1, kNotYet};
      if ((ends >> i & 1) != 0) {
        whole = merge<T>(whole_most_, whole_sum_, most_, sum_);
        most_ = kNothing, sum_ = 0;
      }
      whole_most_ = whole.most, whole_sum_ = whole.sum;
      if (lane() == i) {
        VEERY_SHARED float* to = factors + i * kFactors;
        to[0] = m.keep, to[1] = m.add, to[2] = whole.keep, to[3] = whole.add;
      }
    }
  }
  VEERY_GPU float most() const { return whole_most_; }
  VEERY_GPU float sum() const { return whole_sum_; }

  VEERY_STATIC int kFactors = 4;
  VEERY_STATIC float kNotYet = -1;  ///< the segment goes on

 private:
  float most_ = kNothing, sum_ = 0, whole_most_ = kNothing, whole_sum_ = 0;
};

}  // namespace veery::gpu

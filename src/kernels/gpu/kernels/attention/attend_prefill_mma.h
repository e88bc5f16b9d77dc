// attend_prefill_mma.h: attention of many rows of one sequence by tensor cores, if Element::kMma,
// in the order of attend_block_mma.h.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

namespace key {

/// `dim`: that of keys and values, 64 or 128; 0: any.
constexpr KernelKey attend_prefill_mma(int dim) {
  return of(Family::kAttendPrefillMma, 0, RowClass::kMany, dim);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/tensor_cores.h"
#include "kernels/gpu/kernels/attention/attend_block_mma.h"
#include "kernels/gpu/kernels/attention/attend_prefill.h"

namespace veery::gpu {

/// kDim: dimensions of keys and values; kExactDim: exactly that many, otherwise at most. A warp has
/// 16 queries. A lane has rows g and g + 8 of mma_m16n8k16_bf16(), first as scores of a KV block,
/// then as values.
template <int kDim, bool kExactDim>
class PrefillMmaAttention : PrefillTile {
 public:
  VEERY_GPU PrefillMmaAttention(const AttendParams& params, const RowRange& rows, int part)
      : PrefillTile(params, rows, part) {}

  VEERY_GPU void run() {
    const int64_t first = first_seen(begin_) / kKvBlock, last = end_ / kKvBlock;
    copy_keys(first);
    copy_values(first);
    load_queries();
    for (int64_t block = first; block <= last; ++block) {
      wait_for_copies<1>();
      sync_block();  // keys have arrived
      float scores[kKvBlock / 8][4] = {};
      score(scores);
      sync_block();  // keys have been read
      if (block < last)
        copy_keys(block + 1);
      else
        commit_copies();
      softmax_weights(block, scores);
      wait_for_copies<1>();
      sync_block();
      merge_in(block, scores);
      sync_block();
      if (block < last)
        copy_values(block + 1);
      else
        commit_copies();
    }
    wait_for_copies<0>();
    finish();
  }

 private:
  VEERY_GPU int key_dim() const { return kExactDim ? kDim : a_.key_dim; }
  VEERY_GPU int value_dim() const { return kExactDim ? kDim : a_.value_dim; }
  VEERY_GPU AttendPrefillMmaSmem layout() const {
    return attend_prefill_mma_smem(key_dim(), value_dim());
  }
  static constexpr int kTiles = kKvBlock / 8;
  static constexpr int kAtOnce = 4;  ///< groups of 8 dimensions whose values are added together

  VEERY_GPU int slot(int r) const { return warp() * kMmaQueriesPerWarp + lane() / 4 + 8 * r; }

  // Copies. Memory past the last position may hold anything, even NaN, so its values are set to 0.

  VEERY_GPU void copy_keys(int64_t block) const {
    const uint8_t* from = page(a_.keys, block) + 2 * key_offset(a_.keys, kv_, block * kKvBlock, 0);
    uint8_t* to = shared_memory() + layout().keys;
    VEERY_UNROLL(8)
    for (int i = thread(); i < key_dim() * kKvBlock / 8; i += kPrefillMmaThreads)
      copy_async_16(to + 16 * (i ^ (i >> 3 & 1)), from + 16 * i);
    commit_copies();
  }
  VEERY_GPU void copy_values(int64_t block) const {
    const uint8_t* from =
        page(a_.values, block) + 2 * value_offset(a_.values, kv_, block * kKvBlock, 0);
    uint8_t* to = shared_memory() + layout().values;
    const int each = value_dim() / 8;
    const int64_t there = end_ - block * kKvBlock + 1;
    VEERY_UNROLL(8)
    for (int i = thread(); i < each * kKvBlock; i += kPrefillMmaThreads) {
      uint8_t* destination = to + i / each * layout().value + i % each * 16;
      if (i / each < there)
        copy_async_16(destination, from + 16 * i);
      else
        *reinterpret_cast<Four<uint32_t>*>(destination) = {0, 0, 0, 0};
    }
    commit_copies();
  }
  /// A warp loads a query at a time, 4 dimensions per lane.
  VEERY_GPU void load_queries() const {
    using E = Element<BF16Mma>;
    const int k = 4 * lane();
    if (k >= key_dim()) return;
    VEERY_UNROLL(8)
    for (int s = warp(); s < kPrefillQueries; s += kPrefillMmaThreads / kWarp) {
      Four<float> q = {0, 0, 0, 0};
      if (is_query(s))
        q = load<Four<float>>(a_.q.row(row_ + s / slots_) + (head_ + s % slots_) * key_dim() + k);
      const auto rounded = [&](float x) { return E::multiply(E::multiply(x, a_.scale), 1); };
      *reinterpret_cast<Two<uint32_t>*>(shared_memory() + s * layout().query + 2 * k) = {
          pack_bf16x2(rounded(q.x), rounded(q.y)), pack_bf16x2(rounded(q.z), rounded(q.w))};
    }
  }

  // Products

  VEERY_GPU void score(float (&scores)[kTiles][4]) const {
    const int l = lane();
    const uint8_t* query =
        shared_memory() + (warp() * kMmaQueriesPerWarp + l % 16) * layout().query + l / 16 * 16;
    VEERY_UNROLL(1)
    for (int k = 0; k < key_dim(); k += 16) {
      uint32_t q[4];
      ldmatrix_x4(query + 2 * k, q);
      const int dim = k + l % 16;
      const uint8_t* at =
          shared_memory() + layout().keys + dim * 32 + 16 * (l / 16 ^ (dim >> 2 & 1));
      VEERY_UNROLL(8)
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t b[4];
        ldmatrix_x4_trans(at + n / 2 * 32 * key_dim(), b);
        mma_m16n8k16_bf16(scores[n], q, b[0], b[1]);
        mma_m16n8k16_bf16(scores[n + 1], q, b[2], b[3]);
      }
    }
  }
  /// Computes maxima of scores, softmax weights and their sums, of rows g and g + 8.
  VEERY_GPU void softmax_weights(int64_t block, float (&w)[kTiles][4]) {
    using E = Element<BF16Mma>;
    if (a_.softcap > 0) {
      VEERY_UNROLL(16)
      for (int n = 0; n < kTiles; ++n) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i)
        w[n][i] = E::multiply(a_.softcap, tanh_f32(E::divide(w[n][i], a_.softcap)));
    }
    VEERY_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      const int64_t own = position_of(slot(r));
      const int low = within(first_seen(own) - block * kKvBlock);
      const int high = within(own - block * kKvBlock);
      if (ballot(low > 0 || high < kKvBlock - 1) != 0) apply_mask(low, high, r, w);
      float max_score = kNoScore;
      VEERY_UNROLL(16)
      for (int n = 0; n < kTiles; ++n)
        max_score = max_f32(max_score, max_f32(w[n][2 * r], w[n][2 * r + 1]));
      max_score = max_f32(max_score, shuffle_xor(max_score, 1));
      max_score = max_f32(max_score, shuffle_xor(max_score, 2));
      // Sums of positions p, p + 16, p + 32, ... for p = 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
      float sum[2][2] = {};
      VEERY_UNROLL(16)
      for (int n = 0; n < kTiles; ++n) VEERY_UNROLL(2)
      for (int e = 0; e < 2; ++e) {
        float& of = w[n][2 * r + e];
        of = max_score == kNoScore ? 0.0F : exp_clamped(of - max_score);
        sum[n % 2][e] = sum[n % 2][e] + of;
      }
      block_max_[r] = max_score;
      block_sum_[r] = sum_lanes(sum);
    }
  }
  /// In the order of sum_16_lanes().
  static VEERY_GPU float sum_lanes(const float (&sum)[2][2]) {
    float of[2];
    VEERY_UNROLL(2)
    for (int e = 0; e < 2; ++e) {
      of[e] = sum[0][e] + sum[1][e];
      of[e] = of[e] + shuffle_xor(of[e], 2);
      of[e] = of[e] + shuffle_xor(of[e], 1);
    }
    return of[0] + of[1];
  }
  static VEERY_GPU void apply_mask(int low, int high, int r, float (&w)[kTiles][4]) {
    VEERY_UNROLL(16)
    for (int n = 0; n < kTiles; ++n) VEERY_UNROLL(2)
    for (int e = 0; e < 2; ++e) {
      const int position = 8 * n + lane() % 4 * 2 + e;
      if (position < low || position > high) w[n][2 * r + e] = kNoScore;
    }
  }

  // Merges values as PrefillAttention::merge_in() does. Segments of one KV block (ends_segment())
  // are merged at once. Later, held_ is the current segment, and the sum of the segments before it
  // waits in the memory of the outputs.

  static constexpr int kFirstLongSegment = 16;  ///< KV block of the first segment that has several
  struct Step {
    SoftmaxMerge segment, whole;
    bool sees, ends;
  };
  VEERY_GPU Step step(int64_t block, int r) {
    const int64_t own = position_of(slot(r)), last = own / kKvBlock;
    Step s;
    s.sees = is_query(slot(r)) && block >= first_seen(own) / kKvBlock && block <= last;
    s.ends = s.sees && (block == last || ends_segment(block));
    s.segment = merge<BF16Mma>(segment_max_[r], segment_sum_[r], block_max_[r], block_sum_[r]);
    if (s.sees) segment_max_[r] = s.segment.max_score, segment_sum_[r] = s.segment.sum;
    s.whole = merge<BF16Mma>(max_score_[r], sum_[r], segment_max_[r], segment_sum_[r]);
    if (s.ends) {
      max_score_[r] = s.whole.max_score, sum_[r] = s.whole.sum;
      segment_max_[r] = kNoScore, segment_sum_[r] = 0;
    }
    return s;
  }
  VEERY_GPU void merge_in(int64_t block, const float (&weights)[kTiles][4]) {
    using E = Element<BF16Mma>;
    const bool is_long = block >= kFirstLongSegment;
    if (is_long && !spilled_) spill_total();
    const Step steps[2] = {step(block, 0), step(block, 1)};
    uint32_t w[kTiles / 2][4];
    VEERY_UNROLL(8)
    for (int k = 0; k < kTiles / 2; ++k) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float* own = &weights[2 * k + i / 2][i % 2 * 2];
      w[k][i] = pack_bf16x2(E::multiply(own[0], 1), E::multiply(own[1], 1));
    }
    float keep[2], add[2];
    VEERY_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      keep[r] = is_long ? steps[r].segment.keep : steps[r].whole.keep;
      add[r] = is_long ? steps[r].segment.add : steps[r].whole.add;
    }
    VEERY_UNROLL(4)
    for (int first = 0; first < kDim / 8; first += kAtOnce) {
      if (8 * first >= value_dim()) break;
      float part[kAtOnce][4] = {};
      add_values(block, first, w, part);
      VEERY_UNROLL(4)
      for (int n = 0; n < kAtOnce; ++n) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        float& acc = acc_[first + n][i];
        const float more = E::multiply_add(part[n][i], add[i / 2], E::multiply(acc, keep[i / 2]));
        acc = steps[i / 2].sees ? more : acc;
      }
    }
    if (is_long) {
      end_segment(steps[0], 0);
      end_segment(steps[1], 1);
    }
  }
  VEERY_GPU float* result(int r) const {
    const int own = slot(r);
    return a_.out.row(row_ + own / slots_) + (head_ + own % slots_) * value_dim() + lane() % 4 * 2;
  }
  VEERY_GPU void spill_total() {
    spilled_ = true;
    VEERY_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      if (!is_query(slot(r))) continue;
      float* at = result(r);
      VEERY_UNROLL(16)
      for (int n = 0; n < kDim / 8; ++n) {
        if (8 * n >= value_dim()) break;
        *reinterpret_cast<Two<float>*>(at + 8 * n) = {acc_[n][2 * r], acc_[n][2 * r + 1]};
        acc_[n][2 * r] = acc_[n][2 * r + 1] = 0;
      }
    }
  }
  VEERY_GPU void end_segment(const Step& s, int r) {
    using E = Element<BF16Mma>;
    if (!s.ends) return;
    float* at = result(r);
    VEERY_UNROLL(16)
    for (int n = 0; n < kDim / 8; ++n) {
      if (8 * n >= value_dim()) break;
      auto* both = reinterpret_cast<Two<float>*>(at + 8 * n);
      const Two<float> whole = *both;
      *both = {
          E::multiply_add(acc_[n][2 * r], s.whole.add, E::multiply(whole.x, s.whole.keep)),
          E::multiply_add(acc_[n][2 * r + 1], s.whole.add, E::multiply(whole.y, s.whole.keep))};
      acc_[n][2 * r] = acc_[n][2 * r + 1] = 0;
    }
  }
  VEERY_GPU void add_values(int64_t block, int first, const uint32_t (&w)[kTiles / 2][4],
                            float (&part)[kAtOnce][4]) const {
    // KV blocks that no query of the tile sees are skipped.
    const int64_t begin = block * kKvBlock;
    const int low = within(first_seen(begin_) - begin), high = within(end_ - begin);
    const uint8_t* at = shared_memory() + layout().values + lane() % 16 * layout().value +
                        lane() / 16 * 16 + 16 * first;
    VEERY_UNROLL(8)
    for (int k = 0; k < kTiles / 2; ++k) {
      if (16 * k > high || 16 * k + 15 < low) continue;
      VEERY_UNROLL(2)
      for (int n = 0; n < kAtOnce; n += 2) {
        if (8 * (first + n) >= value_dim()) break;
        uint32_t b[4];
        ldmatrix_x4_trans(at + 16 * k * layout().value + 16 * n, b);
        mma_m16n8k16_bf16(part[n], w[k], b[0], b[1]);
        mma_m16n8k16_bf16(part[n + 1], w[k], b[2], b[3]);
      }
    }
  }

  VEERY_GPU void finish() const {
    using E = Element<BF16Mma>;
    VEERY_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      if (!is_query(slot(r))) continue;
      const bool sink = a_.sinks != nullptr;
      SoftmaxMerge m = {max_score_[r], sum_[r], 1, 0};
      if (sink) m = merge<BF16Mma>(max_score_[r], sum_[r], a_.sinks[head_ + slot(r) % slots_], 1);
      const auto last = [&](float x) {
        return E::divide(sink ? E::multiply(x, m.keep) : x, m.sum);
      };
      float* at = result(r);
      VEERY_UNROLL(16)
      for (int n = 0; n < kDim / 8; ++n) {
        if (8 * n >= value_dim()) break;
        auto* both = reinterpret_cast<Two<float>*>(at + 8 * n);
        Two<float> x = {acc_[n][2 * r], acc_[n][2 * r + 1]};
        if (spilled_) x = *both;
        *both = {last(x.x), last(x.y)};
      }
    }
  }

  float block_max_[2], block_sum_[2];  ///< of rows g and g + 8
  float segment_max_[2] = {kNoScore, kNoScore}, segment_sum_[2] = {};
  float max_score_[2] = {kNoScore, kNoScore}, sum_[2] = {};
  bool spilled_ = false;  ///< whether the sum of earlier segments is in memory
  float acc_[kDim / 8][4] = {};
};

/// Processes tiles whose rows are consecutive positions of one sequence; attend_ragged() processes
/// the others.
template <int kDim, bool kExactDim>
VEERY_GPU void attend_prefill_mma(const AttendParams& a) {
  wait_for_dependencies();
  const RowRange rows = contiguous_tile(a);
  if (rows.first <= rows.last) PrefillMmaAttention<kDim, kExactDim>(a, rows, block_x()).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ATTEND_PREFILL_MMA_KERNELS(X)                                     \
  X(kCuda, attend_prefill_mma_64, AttendParams, veery::gpu::kPrefillMmaThreads, 0,  \
    key::attend_prefill_mma(64), (attend_prefill_mma<64, true>))                    \
  X(kCuda, attend_prefill_mma_128, AttendParams, veery::gpu::kPrefillMmaThreads, 0, \
    key::attend_prefill_mma(128), (attend_prefill_mma<128, true>))                  \
  X(kCuda, attend_prefill_mma_any, AttendParams, veery::gpu::kPrefillMmaThreads, 0, \
    key::attend_prefill_mma(0), (attend_prefill_mma<128, false>))

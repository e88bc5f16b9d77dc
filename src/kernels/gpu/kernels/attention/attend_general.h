// attend_general.h: attention for all cases without a kernel in attend_split.h, with the bits of
// kernels/cpu/attend: wide heads, values within keys (latent attention), q8_0 caches, caches of two
// types, keys and values that are rows of the run, ALiBi, and masks of encoders.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

/// Variants of attend_general: the most dimensions of values, and whether subnormal numbers are
/// flushed to 0, as in bf16 products.
enum class GeneralForm : uint8_t { k256, k256Flushed, k512, k512Flushed, kLatent };
/// The kernels of a form.
enum class GeneralPart : uint8_t { kSplit, kMerge, kRows };

namespace key {

constexpr KernelKey attend_general(GeneralPart part, GeneralForm form) {
  return of(Family::kAttendGeneral, static_cast<int>(form), RowClass::kAny, static_cast<int>(part));
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// The first and the last position that a row sees (kernels/common/pages.h).
struct VisibleRange {
  int64_t first, last;
};
VEERY_GPU VisibleRange visible_range(const VEERY_THREAD AttendGeneralParams& a,
                                     const VEERY_THREAD RunSpan& span, int64_t position) {
  enum { kCausal, kFull, kSymmetric };
  const int64_t end = int64_t{span.position} + span.rows, window = a.window;
  if (a.mask == kFull) return {0, end - 1};
  if (a.mask == kSymmetric)
    return {position > window ? position - window : 0,
            position + window < end - 1 ? position + window : end - 1};
  if (a.chunked != 0 && window > 0) return {position / window * window, position};
  return {window > 0 && position >= window ? position - window + 1 : 0, position};
}

template <Stored kType>
VEERY_GPU float element_at(const VEERY_DEVICE uint8_t* page, int64_t at) {
  if constexpr (kType == Stored::kF32) return reinterpret_cast<const VEERY_DEVICE float*>(page)[at];
  const uint16_t bits = reinterpret_cast<const VEERY_DEVICE uint16_t*>(page)[at];
  return kType == Stored::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
}
/// Returns element i of a head at a position, as f32.
VEERY_GPU float cache_value(const VEERY_THREAD Cache& cache, VEERY_DEVICE uint8_t* page,
                            Stored type, int head, int64_t position, int i, bool keys) {
  if (type == Stored::kQ8) {
    const Q8Element at = q8_element(cache, page, head, position, i, keys);
    return f16_to_float(*at.scale) * static_cast<float>(*at.code);
  }
  const int64_t at =
      keys ? key_offset(cache, head, position, i) : value_offset(cache, head, position, i);
  return type == Stored::kF32   ? element_at<Stored::kF32>(page, at)
         : type == Stored::kF16 ? element_at<Stored::kF16>(page, at)
                                : element_at<Stored::kBF16>(page, at);
}

template <Stored kType>
struct StoredTag {
  VEERY_STATIC Stored type = kType;
};
template <typename Do>
VEERY_GPU void dispatch_stored(Stored type, const VEERY_THREAD Do& f) {
  switch (type) {
    case Stored::kF32: return f(StoredTag<Stored::kF32>{});
    case Stored::kF16: return f(StoredTag<Stored::kF16>{});
    case Stored::kBF16: return f(StoredTag<Stored::kBF16>{});
    case Stored::kQ8: return f(StoredTag<Stored::kQ8>{});
  }
}

template <bool kFlush>
struct QueryValues {
  using T = float;
};
template <>
struct QueryValues<true> {
  using T = BF16;
};

/// Up to kHeads queries of one row that share keys and values. kFlush: subnormal numbers are
/// flushed to 0, as in bf16 products. Positions of rows of the run are counted from the first row
/// of their span. Chosen positions are treated as contiguous, in the order of their list.
template <int kDims, bool kFlush, int kHeads>
class GeneralAttention {
 public:
  using Number = Element<typename QueryValues<kFlush>::T>;
  using T = typename QueryValues<kFlush>::T;
  /// Latent attention: values are part of the keys, and are read as f32.
  VEERY_STATIC bool kLatent = kHeads > 4;

  VEERY_GPU GeneralAttention(const VEERY_THREAD AttendGeneralParams& params, int64_t row,
                             int part VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT a_(params), row_(row) {
    const int group = a_.heads / a_.kv_heads, parts = (group + kHeads - 1) / kHeads;
    kv_ = part / parts;
    head_ = kv_ * group + part % parts * kHeads;
    const int left = group - part % parts * kHeads;
    heads_ = left < kHeads ? left : kHeads;
    const int64_t token = a_.run.token_row(a_.out.rows, row);
    const RunSpan span = span_at(a_.run.spans + a_.run.span_of[token]);
    sequence_ = span.sequence;
    first_row_ = span.first_row;
    const int64_t from = a_.key_rows ? span.position : 0;
    const VisibleRange seen = visible_range(a_, span, a_.run.position(token));
    first_ = seen.first > from ? seen.first - from : 0;
    last_ = seen.last - from;
    own_ = a_.run.position(token) - from;
    if constexpr (kLatent)
      if (a_.chosen && own_ >= a_.chosen.cols) {
        chosen_ = reinterpret_cast<const VEERY_DEVICE int32_t*>(a_.chosen.row(row));
        first_ = 0, last_ = a_.chosen.cols - 1;
      }
    queries_ = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
    weights_ = queries_ + kHeads * padded();
    stats_ = weights_ + kHeads * kKvBlock;
  }
  VEERY_GPU int64_t first_block() const { return first_ / kKvBlock; }
  VEERY_GPU int64_t last_block() const { return last_ / kKvBlock; }
  VEERY_GPU int heads() const { return heads_; }
  VEERY_GPU int head() const { return head_; }

  VEERY_GPU void load_queries() {
    const VEERY_DEVICE float* q = a_.q.row(row_) + head_ * a_.key_dim;
    for (int i = thread(); i < kHeads * padded(); i += threads()) {
      const int h = i / padded(), k = i % padded();
      float x = 0;
      if (h < heads_ && k < a_.key_dim) x = Number::multiply(q[h * a_.key_dim + k], a_.scale);
      queries_[i] = a_.key_pairs != 0 ? Number::rounded(x) : x;
    }
    sync_block();
  }
  /// Computes the states over one KV block.
  VEERY_GPU void attend(int64_t block, VEERY_THREAD State<kDims> (&states)[kHeads]) {
    float s[kHeads] = {};
    if (sees(block * kKvBlock + thread())) score(block * kKvBlock + thread(), s);
    store_scores(block, s);
    sync_block();
    softmax_weights(block, states);
    sync_block();
    add_values(block, states);
    sync_block();
  }
  /// Normalises and stores query h. An attention sink is merged last, as a position whose value
  /// vector is zero.
  VEERY_GPU void finish(int h, const VEERY_THREAD State<kDims>& state) {
    SoftmaxMerge m = {state.max_score, state.sum, 1, 0};
    const bool sink = a_.sinks != nullptr;
    if (sink) m = merge<T>(state.max_score, state.sum, a_.sinks[head_ + h], 1);
    VEERY_DEVICE float* out = a_.out.row(row_) + (head_ + h) * a_.value_dim;
    VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) {
      const int c = thread() + i * kKvBlock;
      const float v = sink ? Number::multiply(state.values[i], m.keep) : state.values[i];
      if (c < a_.value_dim) out[c] = Number::divide(v, m.sum);
    }
    if (a_.log_sum && thread() == 0) stats_[2 * h] = m.max_score, stats_[2 * h + 1] = m.sum;
  }
  /// Stores the log-sum-exp of `count` queries from h on, after finish() of all of them. Called by
  /// all threads.
  VEERY_GPU void store_log_sums(int h, int count) {
    if (!a_.log_sum) return;
    sync_block();
    const int own = h + thread();
    if (thread() < count)
      a_.log_sum.row(row_)[head_ + own] =
          to_f32(to_f64(stats_[2 * own]) + log_f64(to_f64(stats_[2 * own + 1])));
  }

 private:
  VEERY_GPU int padded() const { return (a_.key_dim + 3) / 4 * 4; }
  VEERY_GPU bool sees(int64_t position) const { return position >= first_ && position <= last_; }
  VEERY_GPU VEERY_DEVICE uint8_t* page(const VEERY_THREAD Cache& cache, int64_t position) const {
    return page_of(cache, a_.run, sequence_, position);
  }

  // Multiplies dimensions [first, first + count) of all queries with key(i). kPairs: the odd one of
  // two dimensions comes first.
  template <bool kPairs, typename Key>
  VEERY_GPU void score_chain(int first, int count, const VEERY_THREAD Key& key,
                             VEERY_THREAD float (&s)[kHeads]) const {
    VEERY_UNROLL(2)
    for (int i = first; i < first + count; i += 4) {
      float k[4];
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e) k[e] = i + e < first + count ? key(i + e) : 0.0F;
      VEERY_UNROLL(8)
      for (int h = 0; h < kHeads; ++h) {
        if (h >= heads_) continue;
        const auto four = load_shared<Four<float>>(queries_ + h * padded() + i);
        const float q[4] = {four.x, four.y, four.z, four.w};
        VEERY_UNROLL(4)
        for (int e = 0; e < 4; ++e) {
          const int at = kPairs ? e ^ 1 : e;
          s[h] = Number::multiply_add(q[at], k[at], s[h]);
        }
      }
    }
  }
  VEERY_GPU void score(int64_t position, VEERY_THREAD float (&s)[kHeads]) const {
    if constexpr (!kLatent && !kFlush)
      if (a_.key_rows) {
        const VEERY_DEVICE float* key = a_.key_rows.row(first_row_ + position) + kv_ * a_.key_dim;
        return score_chain<false>(
            0, a_.key_dim, [&](int i) { return key[i]; }, s);
      }
    if constexpr (kLatent)
      if (chosen_ != nullptr) position = chosen_[position];
    VEERY_DEVICE uint8_t* at = page(a_.keys, position);
    dispatch_stored(a_.key_type, [&](auto as) {
      constexpr Stored kType = decltype(as)::type;
      const auto key = [&](int i) {
        return cache_value(a_.keys, at, kType, kv_, position, i, true);
      };
      if constexpr (kType == Stored::kQ8 && !kLatent)
        score_q8(at, position, s);
      else
        score_chain<kFlush && kType == Stored::kBF16>(0, a_.key_dim, key, s);
    });
  }
  // Accumulates over each 32 codes, then accumulates these sums times their scale.
  VEERY_GPU void score_q8(VEERY_DEVICE uint8_t* page, int64_t position,
                          VEERY_THREAD float (&s)[kHeads]) const {
    for (int b = 0; b < a_.key_dim; b += 32) {
      const Q8Element at = q8_element(a_.keys, page, kv_, position, b, true);
      float sum[kHeads] = {};
      score_chain<false>(
          b, 32, [&](int i) { return static_cast<float>(at.code[(i - b) * 16]); }, sum);
      const float scale = f16_to_float(*at.scale);
      VEERY_UNROLL(8)
      for (int h = 0; h < kHeads; ++h)
        s[h] = b == 0 ? Number::multiply(sum[h], scale) : Number::multiply_add(sum[h], scale, s[h]);
    }
  }

  VEERY_GPU void store_scores(int64_t block, const VEERY_THREAD float (&s)[kHeads]) {
    const int64_t position = block * kKvBlock + thread();
    VEERY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) {
      if (h >= heads_) continue;
      float x = s[h];
      if (a_.softcap > 0) x = Number::multiply(a_.softcap, tanh_f32(Number::divide(x, a_.softcap)));
      if (a_.slopes != nullptr) {
        const auto far = static_cast<float>(position > own_ ? own_ - position : position - own_);
        x = Number::multiply_add(a_.slopes[head_ + h], far, x);
      }
      weights_[h * kKvBlock + thread()] = sees(position) ? x : kNoScore;
    }
  }

  // Each warp processes some queries: maxima of scores, softmax weights and their sums.
  VEERY_GPU void softmax_weights(int64_t block, VEERY_THREAD State<kDims> (&states)[kHeads]) {
    for (int h = warp(); h < heads_; h += warps()) {
      VEERY_SHARED float* scores = weights_ + h * kKvBlock;
      float max_score = kNoScore;
      for (int i = lane(); i < kKvBlock; i += kWarp) max_score = max_f32(max_score, scores[i]);
      max_score = warp_max(max_score);
      float w[4], sum = 0;
      for (int i = 0; i < 4; ++i) {
        const int at = i * kWarp + lane();
        w[i] = sees(block * kKvBlock + at) ? exp_clamped(scores[at] - max_score) : 0.0F;
        scores[at] = a_.value_pairs != 0 ? Number::rounded(w[i]) : w[i];
      }
      // Lane l of 16 adds positions l, l + 16, l + 32, ...; a warp covers two groups of 16.
      for (int i = 0; i < 4; ++i) {
        const float other = shuffle_xor(w[i], 16);
        sum = sum + (lane() < 16 ? w[i] : other);
        sum = sum + (lane() < 16 ? other : w[i]);
      }
      sum = sum_16_lanes(sum);
      if (lane() == 0) stats_[2 * h] = max_score, stats_[2 * h + 1] = sum;
    }
    sync_block();
    VEERY_UNROLL(8)
    for (int k = 0; k < kHeads; ++k)
      if (k < heads_) states[k].max_score = stats_[2 * k], states[k].sum = stats_[2 * k + 1];
  }

  // Each thread accumulates its dimensions over positions [low, high] of the KV block.
  VEERY_GPU void add_values(int64_t block, VEERY_THREAD State<kDims> (&states)[kHeads]) {
    const int64_t begin = block * kKvBlock;
    const int low = static_cast<int>(first_ > begin ? first_ - begin : 0);
    const int high = static_cast<int>(last_ - begin < kKvBlock - 1 ? last_ - begin : kKvBlock - 1);
    VEERY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) states[h].values[i] = 0;
    if constexpr (!kLatent && !kFlush)
      if (a_.key_rows) {
        const VEERY_DEVICE float* first =
            a_.value_rows.row(first_row_ + begin) + kv_ * a_.value_dim;
        return add_range<false>(low, high, states,
                                [&](int p, int c) { return first[p * a_.value_rows.stride + c]; });
      }
    const VEERY_THREAD Cache& cache = kLatent ? a_.keys : a_.values;
    if constexpr (kLatent)
      if (chosen_ != nullptr) return add_chosen(begin, high, states);
    VEERY_DEVICE uint8_t* at = page(cache, begin);
    dispatch_stored(kLatent ? a_.key_type : a_.value_type, [&](auto as) {
      constexpr Stored kType = decltype(as)::type;
      const auto value = [&](int p, int c) {
        return cache_value(cache, at, kType, kv_, begin + p, c, kLatent);
      };
      if constexpr (kType == Stored::kQ8 && !kLatent)
        add_q8(at, begin, low, high, states);
      else
        add_range<kFlush && kType == Stored::kBF16>(low, high, states, value);
    });
  }
  VEERY_GPU void add_chosen(int64_t begin, int high,
                            VEERY_THREAD State<kDims> (&states)[kHeads]) const {
    dispatch_stored(a_.key_type, [&](auto as) {
      constexpr Stored kType = decltype(as)::type;
      add_range<false>(0, high, states, [&](int p, int c) {
        const int64_t position = chosen_[begin + p];
        return cache_value(a_.keys, page(a_.keys, position), kType, kv_, position, c, true);
      });
    });
  }
  template <typename Value>
  VEERY_GPU void add(int p, VEERY_THREAD State<kDims> (&states)[kHeads],
                     const VEERY_THREAD Value& value) const {
    VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) {
      const int c = thread() + i * kKvBlock;
      const float v = c < a_.value_dim ? value(p, c) : 0.0F;
      VEERY_UNROLL(8)
      for (int h = 0; h < kHeads; ++h)
        if (h < heads_)
          states[h].values[i] =
              Number::multiply_add(weights_[h * kKvBlock + p], v, states[h].values[i]);
    }
  }
  template <bool kPairs, typename Value>
  VEERY_GPU void add_range(int low, int high, VEERY_THREAD State<kDims> (&states)[kHeads],
                           const VEERY_THREAD Value& value) const {
    int p = low;
    if constexpr (kPairs) {
      if (p % 2 != 0) add(p++, states, value);
      VEERY_UNROLL(2)
      for (; p + 1 <= high; p += 2) {
        add(p + 1, states, value);
        add(p, states, value);
      }
      if (p <= high) add(p, states, value);
    } else {
      VEERY_UNROLL(4)
      for (; p <= high; ++p) add(p, states, value);
    }
  }
  // The weight is multiplied by the scale of the position first.
  VEERY_GPU void add_q8(VEERY_DEVICE uint8_t* page, int64_t begin, int low, int high,
                        VEERY_THREAD State<kDims> (&states)[kHeads]) const {
    for (int p = low; p <= high; ++p) VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) {
      const int c = thread() + i * kKvBlock;
      if (c >= a_.value_dim) continue;
      const Q8Element at = q8_element(a_.values, page, kv_, begin + p, c, false);
      const float scale = f16_to_float(*at.scale), v = static_cast<float>(*at.code);
      VEERY_UNROLL(8)
      for (int h = 0; h < kHeads; ++h)
        if (h < heads_)
          states[h].values[i] = Number::multiply_add(
              Number::multiply(weights_[h * kKvBlock + p], scale), v, states[h].values[i]);
    }
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD AttendGeneralParams& a_;
  int64_t row_, first_, last_, own_;
  int kv_, head_, heads_, sequence_, first_row_;
  const VEERY_DEVICE int32_t* chosen_ = nullptr;
  VEERY_SHARED float *queries_, *weights_, *stats_;
};

/// Few rows: one thread block per KV block. The next kernel merges the states.
template <int kDims, bool kFlush, int kHeads>
VEERY_GPU void attend_general_split(const VEERY_THREAD AttendGeneralParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  GeneralAttention<kDims, kFlush, kHeads> of(a, row, block_y() VEERY_CONTEXT_ARG);
  const int64_t first = of.first_block() + block_x();
  if (first > of.last_block()) return;
  of.load_queries();
  State<kDims> states[kHeads];
  for (int64_t block = first; block <= of.last_block(); block += blocks_x()) {
    of.attend(block, states);
    VEERY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) {
      if (h >= of.heads()) continue;
      VEERY_DEVICE float* part =
          a.partials + ((row * a.heads + of.head() + h) * a.blocks + block - of.first_block()) *
                           (kPartialHeader + a.value_dim);
      if (thread() == 0) part[0] = states[h].max_score, part[1] = states[h].sum;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i) {
        const int c = thread() + i * kKvBlock;
        if (c < a.value_dim) part[kPartialHeader + c] = states[h].values[i];
      }
    }
  }
}
template <int kDims, bool kFlush, int kHeads>
VEERY_GPU void attend_general_merge(const VEERY_THREAD AttendGeneralParams& a VEERY_CONTEXT) {
  using T = typename QueryValues<kFlush>::T;
  wait_for_dependencies();
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  GeneralAttention<kDims, kFlush, kHeads> of(a, row, block_y() VEERY_CONTEXT_ARG);
  const int h = block_x();
  if (h >= of.heads()) return;
  State<kDims> whole, segment, part;
  const VEERY_DEVICE float* at =
      a.partials + (row * a.heads + of.head() + h) * a.blocks * (kPartialHeader + a.value_dim);
  for (int64_t b = of.first_block(); b <= of.last_block();
       ++b, at += kPartialHeader + a.value_dim) {
    part.max_score = at[0];
    part.sum = at[1];
    VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) {
      const int c = thread() + i * kKvBlock;
      part.values[i] = c < a.value_dim ? at[kPartialHeader + c] : 0.0F;
    }
    segment.template merge_in<T>(part);
    if (b == of.last_block() || ends_segment(b)) {
      whole.template merge_in<T>(segment);
      segment.clear();
    }
  }
  of.finish(h, whole);
  of.store_log_sums(h, 1);
}
/// Many rows, or rows of the run: a thread block processes a row and some of its queries.
template <int kDims, bool kFlush, int kHeads>
VEERY_GPU void attend_general_rows(const VEERY_THREAD AttendGeneralParams& a VEERY_CONTEXT) {
  using T = typename QueryValues<kFlush>::T;
  wait_for_dependencies();
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  GeneralAttention<kDims, kFlush, kHeads> of(a, row, block_y() VEERY_CONTEXT_ARG);
  of.load_queries();
  State<kDims> whole[kHeads], segment[kHeads], part[kHeads];
  for (int64_t b = of.first_block(); b <= of.last_block(); ++b) {
    of.attend(b, part);
    const bool end = b == of.last_block() || ends_segment(b);
    VEERY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) {
      if (h >= of.heads()) continue;
      segment[h].template merge_in<T>(part[h]);
      if (!end) continue;
      whole[h].template merge_in<T>(segment[h]);
      segment[h].clear();
    }
  }
  VEERY_UNROLL(8)
  for (int h = 0; h < kHeads; ++h)
    if (h < of.heads()) of.finish(h, whole[h]);
  of.store_log_sums(0, of.heads());
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_GENERAL(X, name, form, dims, flush, heads)           \
  X(kShared, attend_general_split_##name, AttendGeneralParams, 128, 0, \
    key::attend_general(GeneralPart::kSplit, GeneralForm::form),       \
    (attend_general_split<dims, flush, heads>))                        \
  X(kShared, attend_general_merge_##name, AttendGeneralParams, 128, 0, \
    key::attend_general(GeneralPart::kMerge, GeneralForm::form),       \
    (attend_general_merge<dims, flush, heads>))                        \
  X(kShared, attend_general_rows_##name, AttendGeneralParams, 128, 0,  \
    key::attend_general(GeneralPart::kRows, GeneralForm::form),        \
    (attend_general_rows<dims, flush, heads>))
#define VEERY_GPU_ATTEND_GENERAL_KERNELS(X)                  \
  VEERY_GPU_GENERAL(X, 256, k256, 2, false, 4)               \
  VEERY_GPU_GENERAL(X, flushed_256, k256Flushed, 2, true, 4) \
  VEERY_GPU_GENERAL(X, 512, k512, 4, false, 4)               \
  VEERY_GPU_GENERAL(X, flushed_512, k512Flushed, 4, true, 4) \
  VEERY_GPU_GENERAL(X, latent, kLatent, 4, false, 8)

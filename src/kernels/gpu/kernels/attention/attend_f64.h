// attend_f64.h: attention of heads whose width is not a multiple of 16, in the order of
// kernels/reference/attend.cc: position after position, in f64.
#pragma once

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/kernels/attention/attend_general.h"

namespace veery::gpu {

/// A thread block processes one head of one row. For each KV block, each thread computes the score
/// and the factors of one position; then each thread accumulates the values of its dimensions.
/// Shared memory: the query, and 3 f64 numbers per position.
class F64Attention {
 public:
  VEERY_STATIC int kDims = 4;

  VEERY_GPU F64Attention(const VEERY_THREAD AttendGeneralParams& params, int64_t row,
                         int head VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT a_(params),
        row_(row),
        head_(head),
        kv_(head / (a_.heads / a_.kv_heads)) {
    const int64_t token = a_.run.token_row(a_.out.rows, row);
    const RunSpan span = span_at(a_.run.spans + a_.run.span_of[token]);
    sequence_ = span.sequence;
    own_ = a_.run.position(token);
    seen_ = visible_range(a_, span, own_);
    if (a_.chosen && own_ >= a_.chosen.cols) {
      chosen_ = reinterpret_cast<const VEERY_DEVICE int32_t*>(a_.chosen.row(row));
      seen_ = {0, a_.chosen.cols - 1};
    }
    scores_ = reinterpret_cast<VEERY_SHARED Float64*>(shared_memory());
    weights_ = scores_ + kKvBlock, shrinks_ = weights_ + kKvBlock;
    query_ = reinterpret_cast<VEERY_SHARED float*>(shrinks_ + kKvBlock);
  }

  VEERY_GPU void run() {
    for (int i = thread(); i < a_.key_dim; i += threads())
      query_[i] = a_.q.row(row_)[head_ * a_.key_dim + i];
    for (int64_t first = seen_.first; first <= seen_.last; first += kKvBlock) {
      const int64_t left = seen_.last - first + 1;
      const int count = left < kKvBlock ? static_cast<int>(left) : kKvBlock;
      sync_block();
      if (thread() < count) store_f64(scores_ + thread(), score(position(first + thread())));
      sync_block();
      if (thread() < count) compute_factors(thread());
      sync_block();
      for (int p = 0; p < count; ++p) add(position(first + p), p);
      for (int p = 0; p < count; ++p) max_score_ = larger(load_f64(scores_ + p), max_score_);
    }
    if (a_.sinks != nullptr) add_sink(to_f64(a_.sinks[head_]));
    VEERY_DEVICE float* out = a_.out.row(row_) + head_ * a_.value_dim;
    for (int i = 0; i < kDims; ++i)
      if (column(i) < a_.value_dim) out[column(i)] = to_f32(acc_[i] / sum_);
    if (a_.log_sum && thread() == 0)
      a_.log_sum.row(row_)[head_] = to_f32(max_score_ + log_f64(sum_));
  }

 private:
  // Returns position i of those that the row sees, or of those that were chosen for it.
  VEERY_GPU int64_t position(int64_t i) const { return chosen_ != nullptr ? chosen_[i] : i; }
  VEERY_GPU int column(int i) const { return thread() + i * kKvBlock; }
  static VEERY_GPU Float64 larger(Float64 own, Float64 before) {
    return own > before ? own : before;
  }
  VEERY_GPU VEERY_DEVICE uint8_t* page(const VEERY_THREAD Cache& cache, int64_t position) const {
    return page_of(cache, a_.run, sequence_, position);
  }

  VEERY_GPU Float64 score(int64_t position) const {
    VEERY_DEVICE uint8_t* at = page(a_.keys, position);
    Float64 dot = to_f64(0);
    for (int i = 0; i < a_.key_dim; ++i)
      dot = dot +
            product_f64(query_[i], cache_value(a_.keys, at, a_.key_type, kv_, position, i, true));
    Float64 x = dot * to_f64(a_.scale);
    if (a_.softcap > 0) x = to_f64(a_.softcap) * tanh_f64(x / to_f64(a_.softcap));
    if (a_.slopes == nullptr) return x;
    const auto far = static_cast<int>(position > own_ ? position - own_ : own_ - position);
    return x - to_f64(a_.slopes[head_]) * to_f64(far);
  }
  // Computes two factors for position p of the KV block: one for its value, one for the sum of the
  // values before it.
  VEERY_GPU void compute_factors(int p) {
    Float64 before = max_score_;
    for (int i = 0; i < p; ++i) before = larger(load_f64(scores_ + i), before);
    const Float64 own = load_f64(scores_ + p);
    store_f64(shrinks_ + p, own > before ? exp_f64(before - own) : to_f64(1));
    store_f64(weights_ + p, exp_f64(own - larger(own, before)));
  }
  VEERY_GPU void add(int64_t position, int p) {
    const bool shared = a_.shared != 0;
    const VEERY_THREAD Cache& cache = shared ? a_.keys : a_.values;
    VEERY_DEVICE uint8_t* at = page(cache, position);
    const Float64 shrink = load_f64(shrinks_ + p), weight = load_f64(weights_ + p);
    sum_ = sum_ * shrink + weight;
    for (int i = 0; i < kDims; ++i)
      if (column(i) < a_.value_dim)
        acc_[i] = acc_[i] * shrink +
                  weight * to_f64(cache_value(cache, at, shared ? a_.key_type : a_.value_type, kv_,
                                              position, column(i), shared));
  }
  VEERY_GPU void add_sink(Float64 score) {
    const Float64 max_score = larger(score, max_score_);
    if (score > max_score_) {
      const Float64 shrink = exp_f64(max_score_ - score);
      sum_ = sum_ * shrink;
      for (int i = 0; i < kDims; ++i) acc_[i] = acc_[i] * shrink;
    }
    sum_ = sum_ + exp_f64(score - max_score);
    max_score_ = max_score;
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD AttendGeneralParams& a_;
  int64_t row_, own_;
  int head_, kv_, sequence_;
  VisibleRange seen_;
  const VEERY_DEVICE int32_t* chosen_ = nullptr;
  VEERY_SHARED Float64 *scores_, *weights_, *shrinks_;
  VEERY_SHARED float* query_;
  Float64 max_score_ = bits_to_double(static_cast<int64_t>(0xfff0000000000000U));
  Float64 sum_ = {}, acc_[kDims] = {};
};
VEERY_GPU void attend_f64(const VEERY_THREAD AttendGeneralParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  if (block_y() >= a.run.count(a.out.rows)) return;
  F64Attention(a, block_y(), block_x() VEERY_CONTEXT_ARG).run();
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ATTEND_F64_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kShared, attend_f64, AttendGeneralParams, 128)

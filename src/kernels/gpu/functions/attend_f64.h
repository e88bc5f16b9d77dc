// attend_f64.h: attention of heads that are no multiple of 16 wide, in the order of
// kernels/reference/attend.cc: positions one after the other, in f64.
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/functions/attend_wide.h"

namespace veery::gpu {

/// A block of threads a row and a head: blocks of positions have their scores and factors found
/// side by side, then each thread goes through them for its dimensions. Shared memory: the query,
/// and 3 numbers of f64 a position.
class ExactAttention {
 public:
  static constexpr int kDims = 4;

  VEERY_GPU ExactAttention(const WideArguments& arguments, int64_t row, int head)
      : a_(arguments), row_(row), head_(head), kv_(head / (a_.heads / a_.kv_heads)) {
    const int64_t token = a_.run.token_row(a_.out.rows, row);
    const RunSpan span = a_.run.spans[a_.run.span_of[token]];
    sequence_ = span.sequence;
    own_ = a_.run.positions[token];
    seen_ = sight_of(a_, span, own_);
    if (a_.chosen && own_ >= a_.chosen.cols) {
      chosen_ = reinterpret_cast<const int32_t*>(a_.chosen.row(row));
      seen_ = {0, a_.chosen.cols - 1};
    }
    scores_ = reinterpret_cast<double*>(shared_memory());
    weights_ = scores_ + kBlock, shrinks_ = weights_ + kBlock;
    query_ = reinterpret_cast<float*>(shrinks_ + kBlock);
  }

  VEERY_GPU void run() {
    for (int i = thread(); i < a_.key_dim; i += threads())
      query_[i] = a_.q.row(row_)[head_ * a_.key_dim + i];
    for (int64_t first = seen_.first; first <= seen_.last; first += kBlock) {
      const int64_t left = seen_.last - first + 1;
      const int count = left < kBlock ? static_cast<int>(left) : kBlock;
      sync_block();
      if (thread() < count) scores_[thread()] = score(place(first + thread()));
      sync_block();
      if (thread() < count) find_factors(thread());
      sync_block();
      for (int p = 0; p < count; ++p) add(place(first + p), p);
      for (int p = 0; p < count; ++p) most_ = scores_[p] > most_ ? scores_[p] : most_;
    }
    if (a_.sinks != nullptr) add_sink(double{a_.sinks[head_]});
    float* out = a_.out.row(row_) + head_ * a_.value_dim;
    for (int i = 0; i < kDims; ++i)
      if (column(i) < a_.value_dim) out[column(i)] = static_cast<float>(acc_[i] / sum_);
  }

 private:
  // Of those that it sees, or of those that were chosen for it.
  VEERY_GPU int64_t place(int64_t i) const { return chosen_ != nullptr ? chosen_[i] : i; }
  static VEERY_GPU int column(int i) { return thread() + i * kBlock; }
  VEERY_GPU uint8_t* page(const Cache& cache, int64_t position) const {
    return page_of(cache, a_.run, sequence_, position);
  }

  VEERY_GPU double score(int64_t position) const {
    uint8_t* at = page(a_.keys, position);
    double dot = 0;
    for (int i = 0; i < a_.key_dim; ++i)
      dot = dot +
            double{query_[i]} * double{cached(a_.keys, at, a_.key_type, kv_, position, i, true)};
    double x = dot * double{a_.scale};
    if (a_.softcap > 0) x = double{a_.softcap} * tanh_f64(x / double{a_.softcap});
    if (a_.slopes == nullptr) return x;
    const auto far = static_cast<double>(position > own_ ? position - own_ : own_ - position);
    return x - double{a_.slopes[head_]} * far;
  }
  // What position p of the block is counted with, and what was there before it.
  VEERY_GPU void find_factors(int p) {
    double before = most_;
    for (int i = 0; i < p; ++i) before = scores_[i] > before ? scores_[i] : before;
    const double own = scores_[p];
    shrinks_[p] = own > before ? exp_f64(before - own) : 1.0;
    weights_[p] = exp_f64(own - (own > before ? own : before));
  }
  VEERY_GPU void add(int64_t position, int p) {
    const bool shared = a_.shared != 0;
    const Cache& cache = shared ? a_.keys : a_.values;
    uint8_t* at = page(cache, position);
    sum_ = sum_ * shrinks_[p] + weights_[p];
    for (int i = 0; i < kDims; ++i)
      if (column(i) < a_.value_dim)
        acc_[i] = acc_[i] * shrinks_[p] +
                  weights_[p] * double{cached(cache, at, shared ? a_.key_type : a_.value_type, kv_,
                                              position, column(i), shared)};
  }
  VEERY_GPU void add_sink(double score) {
    const double most = score > most_ ? score : most_;
    if (score > most_) {
      const double shrink = exp_f64(most_ - score);
      sum_ = sum_ * shrink;
      for (int i = 0; i < kDims; ++i) acc_[i] = acc_[i] * shrink;
    }
    sum_ = sum_ + exp_f64(score - most);
  }

  const WideArguments& a_;
  int64_t row_, own_;
  int head_, kv_, sequence_;
  Sight seen_;
  const int32_t* chosen_ = nullptr;
  double *scores_, *weights_, *shrinks_;
  float* query_;
  double most_ = double_of(static_cast<int64_t>(0xfff0000000000000U));
  double sum_ = 0, acc_[kDims] = {};
};
VEERY_GPU void attend_f64(const WideArguments& a) {
  wait_for_inputs();
  if (block_y() >= a.run.count(a.out.rows)) return;
  ExactAttention(a, block_y(), block_x()).run();
}

}  // namespace veery::gpu

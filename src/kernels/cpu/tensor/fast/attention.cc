#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/fast/attention.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/fast/attention-inl.h"
//
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// The rows of one item.
template <typename T>
class AttentionRows {
 public:
  AttentionRows(const AttentionProblem& problem, const AttentionItem& item)
      : p_(problem),
        head_(problem, item.head),
        row_(item.first),
        rows_(item.count),
        key_columns_(AttentionSizes(problem).key_columns),
        value_columns_(AttentionSizes(problem).value_columns) {
    Scratch<T> scratch(item.scratch);
    const int64_t rows = round_up(rows_, kProductRows);
    queries_ = scratch.take(rows * key_columns_);
    out_ = scratch.zeros(rows * value_columns_);
    keys_ = scratch.take(kKeyBlock * key_columns_);
    values_ = scratch.take(kKeyBlock * value_columns_);
    lines_ = scratch.take(kKeyLines * key_columns_);
    scores_ = scratch.take(kRowTile * kKeyBlock);
    std::fill_n(most_, kRowsOfItem, kUnseen);
    head_.load_rows(p_.q, row_, rows_, p_.key_size, queries_);
    const Vector<T> scale = set(static_cast<T>(p_.scale));
    for (int64_t i = 0; i < rows_ * key_columns_; i += kLanes)
      store(queries_ + i, mul(load(queries_ + i), scale));
  }

  void run(std::byte* out, std::byte* log_sums) {
    const int64_t first = p_.first_key(head_.query(row_));
    const int64_t last = p_.last_key(head_.query(row_ + rows_ - 1));
    for (int64_t key = first / kKeyBlock * kKeyBlock; key <= last; key += kKeyBlock) {
      head_.load_transposed(p_.k, key, p_.key_size, lines_, keys_);
      head_.load_block(p_.v, key, p_.value_size, values_);
      for (int64_t tile = 0; tile < rows_; tile += kRowTile)
        add_block(tile, std::min(kRowTile, rows_ - tile), key);
    }
    for (int64_t i = 0; i < rows_; ++i) finish(i, out, log_sums);
  }

 private:
  static constexpr T kUnseen = -std::numeric_limits<T>::infinity();

  // Adds a block of keys to the rows of a tile.
  void add_block(int64_t tile, int64_t rows, int64_t key) {
    const int64_t keys = std::min(kKeyBlock, p_.keys - key);
    if (!head_.sees(row_ + tile, rows, key, keys)) return;
    multiply_block(queries_ + tile * key_columns_, rows, p_.key_size, keys_, scores_);
    head_.mask_scores(row_ + tile, rows, key, scores_);
    for (int64_t i = 0; i < rows; ++i) weigh(tile + i, scores_ + i * kKeyBlock);
    add_weighted(scores_, rows, keys, p_.value_size, values_, out_ + tile * value_columns_);
  }

  // Turns the scores of a row into weights relative to its largest score so far.
  HWY_INLINE void weigh(int64_t i, T* scores) {
    Vector<T> best = load(scores);
    for (int64_t j = kLanes; j < kKeyBlock; j += kLanes) best = max(best, load(scores + j));
    const T own = max_of(best);
    const T factor = rescale(i, own);
    const Vector<T> shift = set(shift_of(most_[i]));
    Vector<T> total = set(T{0});
    for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
      const Vector<T> weight = exp(sub(load(scores + j), shift));
      total = add(total, weight);
      store(scores + j, weight);
    }
    sum_[i] = sum_[i] * factor + sum(total);
  }

  // Makes `score` the largest one of a row if it is larger. Returns the factor of older weights.
  HWY_INLINE T rescale(int64_t i, T score) {
    if (!(score > most_[i])) return T{1};
    const T factor = exp_of(most_[i] - shift_of(score));
    most_[i] = score;
    T* out = out_ + i * value_columns_;
    for (int64_t c = 0; c < value_columns_; c += kLanes)
      store(out + c, mul(load(out + c), set(factor)));
    return factor;
  }

  void finish(int64_t i, std::byte* out, std::byte* log_sums) {
    if (p_.sinks.data != nullptr) {
      const T sink =
          element<T>(p_.sinks.data, p_.sinks.type, head_.head(row_ + i) * p_.sinks.strides[0]);
      const T factor = rescale(i, sink);
      sum_[i] = sum_[i] * factor + exp_of(sink - shift_of(most_[i]));
    }
    T* row = out_ + i * value_columns_;
    const bool is_empty = sum_[i] == T{0};
    const Vector<T> sum = set(is_empty ? T{1} : sum_[i]);
    for (int64_t c = 0; c < value_columns_; c += kLanes) store(row + c, div(load(row + c), sum));
    const int64_t line = head_.line(row_ + i);
    store_row(row, p_.value_size, out + line * p_.value_size * info(p_.type).bytes, p_.type);
    reinterpret_cast<T*>(log_sums)[line] =
        is_empty ? kUnseen
                 : static_cast<T>(static_cast<double>(shift_of(most_[i])) +
                                  std::log(static_cast<double>(sum_[i])));
  }

  const AttentionProblem& p_;
  AttentionHead<T> head_;
  int64_t row_, rows_, key_columns_, value_columns_;
  T *queries_, *out_, *keys_, *values_, *lines_, *scores_;
  T most_[kRowsOfItem], sum_[kRowsOfItem] = {};  ///< largest scores, and sums of weights
};

template <typename T>
void attention_rows(const AttentionProblem& p, const AttentionItem& item, std::byte* out,
                    std::byte* log_sums) {
  AttentionRows<T>(p, item).run(out, log_sums);
}

}  // namespace

constexpr AttentionRowsKernel kAttentionRows[] = {attention_rows<float>, attention_rows<double>};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

template <typename T>
void attention_as(const AttentionProblem& p, std::byte* out, std::byte* log_sums,
                  AttentionRowsKernel kernel, ThreadPool& pool) {
  const int64_t items = (p.rows() + kRowsOfItem - 1) / kRowsOfItem;
  pool.parallel_for(p.batch * p.kv_heads * items, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(attention_scratch(p)));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % items * kRowsOfItem;
      kernel(p, {i / items, row, std::min(kRowsOfItem, p.rows() - row), scratch.data()}, out,
             log_sums);
    }
  });
}

}  // namespace

void attention(const AttentionProblem& problem, std::byte* out, std::byte* log_sums, Target target,
               ThreadPool& pool) {
  if (problem.batch * problem.kv_heads * problem.rows() == 0) return;
  const AttentionRowsKernel* kernels = VEERY_FOR_F32_TARGET(target, kAttentionRows);
  if (problem.is_wide()) return attention_as<double>(problem, out, log_sums, kernels[1], pool);
  attention_as<float>(problem, out, log_sums, kernels[0], pool);
}

}  // namespace veery
#endif

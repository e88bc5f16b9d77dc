// The backward pass of attention(). Scores are computed again. A worker has a head of keys, or if
// there are too few heads, rows for the gradients of queries and then blocks of keys for those of
// keys and values, so that no two workers add to one sum.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/fast/attention_gradients.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/fast/attention-inl.h"
//
#include <cmath>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Data of all items.
template <typename T>
struct Shared {
  explicit Shared(const AttentionBackward& backward)
      : p(backward.p), g(backward.g), sizes(p), means(static_cast<T*>(backward.means)) {}
  const T* log_sums() const { return reinterpret_cast<const T*>(g.log_sums); }

  const AttentionProblem& p;
  const AttentionGradients& g;
  AttentionSizes sizes;
  T* means;
};

// The mean cotangent of a row's weights is also the product of its output with the cotangent.
template <typename T>
void multiply_means(const AttentionBackward& backward, const AttentionItem& item) {
  const Shared<T> shared(backward);
  const AttentionProblem& p = shared.p;
  const int64_t padded = round_up(p.value_size, kLanes);
  Scratch<T> scratch(item.scratch);
  T *x = scratch.take(padded), *t = scratch.take(padded);
  const auto read = [&](const StridedElements& from, int64_t line, T* to) {
    const int64_t at = line / p.queries / p.heads * from.strides[0] +
                       line / p.queries % p.heads * from.strides[1] +
                       line % p.queries * from.strides[2];
    load_row(from.data + at * info(from.type).bytes, from.type, from.strides[3], p.value_size, to,
             padded);
  };
  for (int64_t line = item.first; line < item.first + item.count; ++line) {
    read(shared.g.out, line, x);
    read(shared.g.cotangent, line, t);
    shared.means[line] = sum_of<T>(
        padded, [&](int64_t i, auto part) { return fma(load(x + i), load(t + i), part); });
  }
}

/// A block of keys and values, packed.
template <typename T>
struct KeyBlock {
  KeyBlock(const Shared<T>& shared, bool with_rows, Scratch<T>& scratch)
      : keys(scratch.take(kKeyBlock * shared.sizes.key_columns)),
        values(scratch.take(kKeyBlock * shared.sizes.value_columns)),
        lines(scratch.take(kKeyLines * shared.sizes.both())),
        rows(with_rows ? scratch.take(kKeyBlock * shared.sizes.key_columns) : nullptr) {}
  void load(const Shared<T>& shared, const AttentionHead<T>& head, int64_t key) {
    head.load_transposed(shared.p.k, key, shared.p.key_size, lines, keys);
    head.load_transposed(shared.p.v, key, shared.p.value_size, lines, values);
    if (rows != nullptr) head.load_block(shared.p.k, key, shared.p.key_size, rows);
  }

  T *keys, *values;  ///< [size][kKeyBlock]
  T* lines;
  T* rows;  ///< keys as [kKeyBlock][key_columns]; null: not needed
};

/// Rows of queries, scaled, and of the cotangent of the output.
template <typename T>
struct RowBlock {
  RowBlock(const Shared<T>& shared, int64_t most, Scratch<T>& scratch)
      : queries(scratch.take(round_up(most, kProductRows) * shared.sizes.key_columns)),
        cotangents(scratch.take(round_up(most, kProductRows) * shared.sizes.value_columns)) {}
  void load(const Shared<T>& shared, const AttentionHead<T>& head, int64_t row, int64_t rows) {
    head.load_rows(shared.p.q, row, rows, shared.p.key_size, queries);
    head.load_rows(shared.g.cotangent, row, rows, shared.p.value_size, cotangents);
    const Vector<T> scale = set(static_cast<T>(shared.p.scale));
    for (int64_t i = 0; i < rows * shared.sizes.key_columns; i += kLanes)
      store(queries + i, mul(HWY_NAMESPACE::load(queries + i), scale));
  }

  T *queries, *cotangents;
};

/// Rows [row, row + rows) and keys [key, key + keys), with the packed rows.
template <typename T>
struct TilePlace {
  int64_t row, rows, key, keys;
  const T *queries, *cotangents;
};

/// Weights and the gradients of scores of a tile: [kRowTile][kKeyBlock].
template <typename T>
class TileGradients {
 public:
  TileGradients(const Shared<T>& shared, Scratch<T>& scratch)
      : shared_(shared), memory_(scratch.take(2 * kRowTile * kKeyBlock)) {}

  void compute(const AttentionHead<T>& head, const TilePlace<T>& at, const KeyBlock<T>& block) {
    multiply_block(at.queries, at.rows, shared_.p.key_size, block.keys, weights());
    head.mask_scores(at.row, at.rows, at.key, weights());
    multiply_block(at.cotangents, at.rows, shared_.p.value_size, block.values, scores());
    for (int64_t i = 0; i < at.rows; ++i) {
      const int64_t line = head.line(at.row + i);
      const T log_sum = shared_.log_sums()[line];
      // A row that sees no key has the sum -infinity, and weights 0.
      const Vector<T> shift = set(log_sum == -std::numeric_limits<T>::infinity() ? T{0} : log_sum);
      const Vector<T> mean = set(shared_.means[line]);
      for (int64_t j = i * kKeyBlock; j < (i + 1) * kKeyBlock; j += kLanes) {
        const Vector<T> weight = exp(sub(load(weights() + j), shift));
        store(weights() + j, weight);
        store(scores() + j, mul(weight, sub(load(scores() + j), mean)));
      }
    }
  }
  T* weights() { return memory_; }
  T* scores() { return weights() + kRowTile * kKeyBlock; }

 private:
  const Shared<T>& shared_;
  T* memory_;
};

/// Gradients of keys and values from `first` on.
template <typename T>
class KeySums {
 public:
  KeySums(const Shared<T>& shared, int64_t first, int64_t count, Scratch<T>& scratch)
      : shared_(shared),
        first_(first),
        count_(count),
        keys_(scratch.zeros(round_up(count, kKeyBlock) * shared.sizes.key_columns)),
        values_(scratch.zeros(round_up(count, kKeyBlock) * shared.sizes.value_columns)) {}

  void add(TileGradients<T>& tile, const TilePlace<T>& at) {
    const int64_t key = at.key - first_;
    if (shared_.g.k != nullptr)
      add_transposed(tile.scores(), at, at.queries, shared_.sizes.key_columns,
                     keys_ + key * shared_.sizes.key_columns);
    if (shared_.g.v != nullptr)
      add_transposed(tile.weights(), at, at.cotangents, shared_.sizes.value_columns,
                     values_ + key * shared_.sizes.value_columns);
  }
  void write(const AttentionHead<T>& head) const {
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t line = head.key_line(first_ + i);
      write_row(keys_ + i * shared_.sizes.key_columns, shared_.p.key_size, shared_.g.k, line);
      write_row(values_ + i * shared_.sizes.value_columns, shared_.p.value_size, shared_.g.v, line);
    }
  }

 private:
  // sums [keys][columns] += scores [rows][kKeyBlock], transposed, times from [rows][columns]
  static void add_transposed(const T* scores, const TilePlace<T>& at, const T* from,
                             int64_t columns, T* sums) {
    multiply(Product<T>{.a = scores,
                        .a_row = 1,
                        .a_step = kKeyBlock,
                        .b = from,
                        .b_row = columns,
                        .c = sums,
                        .c_row = columns,
                        .rows = at.keys,
                        .columns = columns,
                        .inner = at.rows,
                        .add = true});
  }
  void write_row(const T* sums, int64_t size, std::byte* to, int64_t line) const {
    if (to != nullptr)
      store_row(sums, size, to + line * size * info(shared_.p.type).bytes, shared_.p.type);
  }

  const Shared<T>& shared_;
  int64_t first_, count_;
  T *keys_, *values_;  ///< [count rounded up to blocks][columns]
};

/// Rows of one head, with the memory for tiles of them.
template <typename T>
class RowItem {
 public:
  RowItem(const Shared<T>& shared, const AttentionItem& item, bool with_key_rows,
          Scratch<T>& scratch)
      : shared_(shared),
        head_(shared.p, item.head),
        row_(item.first),
        rows_(item.count),
        block_(shared, with_key_rows, scratch),
        own_(shared, item.count, scratch),
        gradients_(shared, scratch) {
    own_.load(shared, head_, row_, rows_);
  }
  const AttentionHead<T>& head() const { return head_; }
  TileGradients<T>& gradients() { return gradients_; }
  const T* key_rows() const { return block_.rows; }

  /// Computes the gradients of each tile that its rows may see, and calls fn(place).
  template <typename Fn>
  void each_tile(const Fn& fn) {
    const AttentionProblem& p = shared_.p;
    const int64_t first = p.first_key(head_.query(row_));
    const int64_t last = p.last_key(head_.query(row_ + rows_ - 1));
    for (int64_t key = first / kKeyBlock * kKeyBlock; key <= last; key += kKeyBlock) {
      block_.load(shared_, head_, key);
      for (int64_t tile = 0; tile < rows_; tile += kRowTile) {
        const TilePlace<T> at{.row = row_ + tile,
                              .rows = std::min(kRowTile, rows_ - tile),
                              .key = key,
                              .keys = std::min(kKeyBlock, p.keys - key),
                              .queries = own_.queries + tile * shared_.sizes.key_columns,
                              .cotangents = own_.cotangents + tile * shared_.sizes.value_columns};
        if (!head_.sees(at.row, at.rows, at.key, at.keys)) continue;
        gradients_.compute(head_, at, block_);
        fn(at);
      }
    }
  }

 private:
  const Shared<T>& shared_;
  AttentionHead<T> head_;
  int64_t row_, rows_;
  KeyBlock<T> block_;
  RowBlock<T> own_;
  TileGradients<T> gradients_;
};

// The output of f16 and bf16 is rounded, and the product with it would be far less exact than the
// gradients.
template <typename T>
void sum_means(const AttentionBackward& backward, const AttentionItem& item) {
  const Shared<T> shared(backward);
  Scratch<T> scratch(item.scratch);
  RowItem<T> rows(shared, item, false, scratch);
  T* sums = scratch.zeros(item.count);
  // The means are still 0, so the scores are products of weights and their cotangents.
  rows.each_tile([&](const TilePlace<T>& at) {
    for (int64_t i = 0; i < at.rows; ++i) {
      const T* scores = rows.gradients().scores() + i * kKeyBlock;
      sums[at.row - item.first + i] +=
          sum_of<T>(kKeyBlock, [&](int64_t j, auto part) { return add(part, load(scores + j)); });
    }
  });
  for (int64_t i = 0; i < item.count; ++i) shared.means[rows.head().line(item.first + i)] = sums[i];
}

// Gradients of the queries and of the mask. Adds to those of keys and values unless `key_sums` is
// null.
template <typename T>
void add_row_gradients(const Shared<T>& shared, const AttentionItem& item, Scratch<T> scratch,
                       KeySums<T>* key_sums) {
  const AttentionProblem& p = shared.p;
  const int64_t columns = shared.sizes.key_columns, row = item.first;
  RowItem<T> rows(shared, item, shared.g.q != nullptr, scratch);
  T* sums = scratch.zeros(round_up(item.count, kProductRows) * columns);
  auto* mask = reinterpret_cast<T*>(shared.g.mask);
  for (int64_t i = 0; mask != nullptr && i < item.count; ++i)
    std::fill_n(mask + rows.head().line(row + i) * p.keys, p.keys, T{0});
  rows.each_tile([&](const TilePlace<T>& at) {
    const T* scores = rows.gradients().scores();
    if (shared.g.q != nullptr)
      add_weighted(scores, at.rows, at.keys, p.key_size, rows.key_rows(),
                   sums + (at.row - row) * columns);
    for (int64_t i = 0; mask != nullptr && i < at.rows; ++i)
      std::copy_n(scores + i * kKeyBlock, at.keys,
                  mask + rows.head().line(at.row + i) * p.keys + at.key);
    if (key_sums != nullptr) key_sums->add(rows.gradients(), at);
  });
  const Vector<T> scale = set(static_cast<T>(p.scale));
  for (int64_t i = 0; shared.g.q != nullptr && i < item.count; ++i) {
    T* sum = sums + i * columns;
    for (int64_t c = 0; c < columns; c += kLanes) store(sum + c, mul(load(sum + c), scale));
    store_row(sum, p.key_size,
              shared.g.q + rows.head().line(row + i) * p.key_size * info(p.type).bytes, p.type);
  }
}
template <typename T>
void row_gradients(const AttentionBackward& backward, const AttentionItem& item) {
  add_row_gradients<T>(Shared<T>(backward), item, Scratch<T>(item.scratch), nullptr);
}

template <typename T>
void key_gradients(const AttentionBackward& backward, const AttentionItem& item) {
  const Shared<T> shared(backward);
  const AttentionProblem& p = shared.p;
  const AttentionHead<T> head(p, item.head);
  Scratch<T> scratch(item.scratch);
  KeyBlock<T> block(shared, false, scratch);
  RowBlock<T> own(shared, std::min(kRowTile, p.rows()), scratch);
  TileGradients<T> gradients(shared, scratch);
  KeySums<T> sums(shared, item.first, item.count, scratch);
  block.load(shared, head, item.first);
  for (int64_t row = 0; row < p.rows(); row += kRowTile) {
    const TilePlace<T> at{.row = row,
                          .rows = std::min(kRowTile, p.rows() - row),
                          .key = item.first,
                          .keys = item.count,
                          .queries = own.queries,
                          .cotangents = own.cotangents};
    if (!head.sees(at.row, at.rows, at.key, at.keys)) continue;
    own.load(shared, head, row, at.rows);
    gradients.compute(head, at, block);
    sums.add(gradients, at);
  }
  sums.write(head);
}

template <typename T>
void head_gradients(const AttentionBackward& backward, const AttentionItem& item) {
  const Shared<T> shared(backward);
  const int64_t rows = shared.p.rows();
  Scratch<T> scratch(item.scratch);
  KeySums<T> sums(shared, 0, shared.p.keys, scratch);
  for (int64_t row = 0; row < rows; row += kRowsOfItem)
    add_row_gradients(shared, {item.head, row, std::min(kRowsOfItem, rows - row), nullptr}, scratch,
                      &sums);
  sums.write(AttentionHead<T>(shared.p, item.head));
}

}  // namespace

constexpr AttentionGradientKernels kAttentionGradients[] = {
    {multiply_means<float>, sum_means<float>, row_gradients<float>, key_gradients<float>,
     head_gradients<float>},
    {multiply_means<double>, sum_means<double>, row_gradients<double>, key_gradients<double>,
     head_gradients<double>}};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

/// The backward pass in T, the type of log_sums.
template <typename T>
class BackwardPass {
 public:
  BackwardPass(const AttentionProblem& problem, const AttentionGradients& gradients,
               const AttentionGradientKernels& kernels, ThreadPool& pool)
      : p_(problem),
        g_(gradients),
        kernels_(kernels),
        pool_(pool),
        means_(static_cast<size_t>(problem.batch * problem.heads * problem.queries)) {}

  void run() {
    const int64_t heads = p_.batch * p_.kv_heads;
    if (info(p_.type).bytes == sizeof(T))
      each(kernels_.multiply_means, 1, p_.batch * p_.heads * p_.queries, 256, 0);
    else
      each(kernels_.sum_means, heads, p_.rows(), kRowsOfItem, 0);
    const bool of_rows = g_.q != nullptr || g_.mask != nullptr;
    const bool of_keys = g_.k != nullptr || g_.v != nullptr;
    // Whole heads need 5 products for each tile, but may leave workers without one; rows and keys
    // apart need 7. The order of all sums is the same.
    const int64_t rounds = (heads + pool_.size() - 1) / pool_.size();
    if (of_rows && of_keys && rounds * pool_.size() * 5 <= heads * 7) {
      each(kernels_.head, heads, 1, 1, p_.keys);
    } else {
      if (of_rows) each(kernels_.rows, heads, p_.rows(), kRowsOfItem, 0);
      if (of_keys) each(kernels_.keys, heads, p_.keys, kKeyBlock, kKeyBlock);
    }
    if (g_.sinks != nullptr) sum_sinks();
  }

 private:
  // Calls a kernel for each head and [0, count) in parts of `size`.
  void each(AttentionGradientKernels::Kernel kernel, int64_t heads, int64_t count, int64_t size,
            int64_t summed_keys) {
    const int64_t items = (count + size - 1) / size;
    pool_.parallel_for(heads * items, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> scratch(static_cast<size_t>(gradient_scratch(p_, summed_keys)));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % items * size;
        kernel({p_, g_, means_.data()},
               {i / items, first, std::min(size, count - first), scratch.data()});
      }
    });
  }

  // A sink has the weight e^(sink - log_sum) and no value. The sum over queries is taken in f64.
  void sum_sinks() {
    const auto* sinks = reinterpret_cast<const T*>(p_.sinks.data);
    const auto* log_sums = reinterpret_cast<const T*>(g_.log_sums);
    for (int64_t head = 0; head < p_.heads; ++head) {
      const auto sink = static_cast<double>(sinks[head * p_.sinks.strides[0]]);
      double sum = 0;
      for (int64_t i = 0; i < p_.batch * p_.queries; ++i) {
        const int64_t line = (i / p_.queries * p_.heads + head) * p_.queries + i % p_.queries;
        if (log_sums[line] == -std::numeric_limits<T>::infinity()) continue;
        sum -= std::exp(sink - static_cast<double>(log_sums[line])) *
               static_cast<double>(means_[static_cast<size_t>(line)]);
      }
      reinterpret_cast<T*>(g_.sinks)[head] = static_cast<T>(sum);
    }
  }

  const AttentionProblem& p_;
  const AttentionGradients& g_;
  const AttentionGradientKernels& kernels_;
  ThreadPool& pool_;
  std::vector<T> means_;
};

}  // namespace

void attention_gradients(const AttentionProblem& problem, const AttentionGradients& gradients,
                         Target target, ThreadPool& pool) {
  const AttentionGradientKernels* kernels = VEERY_FOR_F32_TARGET(target, kAttentionGradients);
  if (problem.is_wide()) return BackwardPass<double>(problem, gradients, kernels[1], pool).run();
  BackwardPass<float>(problem, gradients, kernels[0], pool).run();
}

}  // namespace veery
#endif

// attention.h: scaled dot-product attention on tensors, and its gradients, without a matrix of
// scores in memory.
//
// FlashAttention (Dao et al., NeurIPS 2022; the backward pass as in FlashAttention-2, Dao, 2023).
// The query heads that share a head of keys form its rows: row r is query r / group of head
// r % group. Keys are in blocks of kKeyBlock, rows in tiles of kRowTile, both counted from 0, so
// that the order of each sum depends on the shapes alone:
//   score     one chain of fma over the head size, of (q * scale) and k
//   output    one chain of fma over the keys in order, scaled when a block has a larger score
//   sum       16 lanes for each block, then the blocks in order
//   gradients one chain of fma each: that of q over the keys, those of k and v over the rows
// A block that a row does not see changes no bit of the row and may be left out.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tensor/element_program.h"

namespace veery {

struct AttentionProblem {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int64_t key_size = 0, value_size = 0;
  double scale = 1;
  bool causal = false;  ///< query i sees keys up to i + keys - queries
  int64_t window = 0;   ///< if > 0, keys at a distance of at least `window` are not seen
  ElementType type = ElementType::kF32;  ///< of q, k, v and the output
  StridedElements q, k, v;               ///< [batch, (kv_)heads, queries or keys, size]
  StridedElements mask;  ///< [batch, heads, queries, keys], bool or added to scores; or no data
  /// [heads], scores of a key without a value, f64 if the type is f64, else f32; or no data
  StridedElements sinks;

  int64_t group() const { return heads / std::max<int64_t>(kv_heads, 1); }
  int64_t rows() const { return group() * queries; }  ///< of a head of keys
  /// The keys that query i sees by its position: first to last, none if last < first.
  int64_t first_key(int64_t i) const {
    return window > 0 ? std::max<int64_t>(i + keys - queries - window + 1, 0) : 0;
  }
  int64_t last_key(int64_t i) const {
    const int64_t own = i + keys - queries;
    return std::min(keys - 1, causal ? own : window > 0 ? own + window - 1 : keys - 1);
  }
  bool is_wide() const { return type == ElementType::kF64; }
};

/// Writes the output [batch, heads, queries, value_size], contiguous, and the log-sum-exp of the
/// scores of each query [batch, heads, queries] in f64 if the type is f64, else f32. A query that
/// sees no key gives zeros.
void attention(const AttentionProblem& problem, std::byte* out, std::byte* log_sums, Target target,
               ThreadPool& pool);

/// Operands and results of the backward pass. Results are contiguous; those that are null are not
/// computed.
struct AttentionGradients {
  StridedElements out, cotangent;       ///< the output and its cotangent
  const std::byte* log_sums = nullptr;  ///< from attention()
  std::byte *q = nullptr, *k = nullptr, *v = nullptr;
  std::byte* mask = nullptr;   ///< [batch, heads, queries, keys], f64 or f32 as log_sums
  std::byte* sinks = nullptr;  ///< [heads], f64 or f32 as log_sums
};
void attention_gradients(const AttentionProblem& problem, const AttentionGradients& gradients,
                         Target target, ThreadPool& pool);

}  // namespace veery

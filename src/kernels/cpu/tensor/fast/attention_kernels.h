// attention_kernels.h: the functions of attention that are compiled for each instruction set, and
// the memory that they need.
#pragma once
#include <algorithm>

#include "kernels/cpu/tensor/fast/attention.h"

namespace veery {

inline constexpr int64_t kKeyBlock = 96;  ///< a block of scores is kRowTile x kKeyBlock
inline constexpr int64_t kRowTile = 48;
/// Rows whose tiles use a block of keys one after the other, so that it is packed once.
inline constexpr int64_t kRowsOfItem = 4 * kRowTile;
/// Matrices of products have whole multiples of these (product-inl.h).
inline constexpr int64_t kProductRows = 12, kProductColumns = 32;
inline constexpr int64_t kKeyLines = 16;  ///< keys that are transposed together
static_assert(kKeyBlock % kProductColumns == 0 && kKeyBlock % kProductRows == 0);
static_assert(kRowTile % kProductRows == 0 && kKeyBlock % kKeyLines == 0);

constexpr int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Sizes of packed rows.
struct AttentionSizes {
  explicit AttentionSizes(const AttentionProblem& p)
      : key_columns(rounded_up(p.key_size, kProductColumns)),
        value_columns(rounded_up(p.value_size, kProductColumns)),
        rows(std::min(rounded_up(p.rows(), kProductRows), kRowsOfItem)) {}
  int64_t both() const { return key_columns + value_columns; }

  int64_t key_columns, value_columns;
  int64_t rows;  ///< the most of an item
};

/// Rows or keys [first, first + count) of a head of keys, with `scratch` for a worker.
struct AttentionItem {
  int64_t head, first, count;
  void* scratch;  ///< f64 if AttentionProblem::is_wide(), else f32
};

/// The function of one instruction set and computed type, for rows of one head.
using AttentionRowsKernel = void (*)(const AttentionProblem&, const AttentionItem&, std::byte* out,
                                     std::byte* log_sums);
/// The numbers that its scratch has.
inline int64_t attention_scratch(const AttentionProblem& p) {
  const AttentionSizes sizes(p);
  return (sizes.rows + kKeyBlock) * sizes.both() + kKeyLines * sizes.key_columns +
         kRowTile * kKeyBlock;
}

struct AttentionBackward {
  const AttentionProblem& p;
  const AttentionGradients& g;
  /// [batch, heads, queries], f64 or f32 as log_sums: the sum of weights times their cotangents.
  void* means;
};
/// The functions of one instruction set and computed type.
struct AttentionGradientKernels {
  using Kernel = void (*)(const AttentionBackward&, const AttentionItem&);
  /// Means of `count` queries from `first` on, in the order of the array, from the output.
  Kernel multiply_means;
  /// Means of rows from scores; the means must be 0 before.
  Kernel sum_means;
  Kernel rows;  ///< gradients of queries and mask
  Kernel keys;  ///< gradients of keys and values, of one block
  Kernel head;  ///< all of these gradients, of a whole head
};
/// The numbers that their scratch has for `keys` keys whose gradients are summed.
inline int64_t gradient_scratch(const AttentionProblem& p, int64_t keys) {
  const AttentionSizes sizes(p);
  return (kKeyBlock + kKeyLines + sizes.rows + rounded_up(keys, kKeyBlock)) * sizes.both() +
         (kKeyBlock + sizes.rows) * sizes.key_columns + 2 * kRowTile * kKeyBlock + sizes.rows;
}

}  // namespace veery

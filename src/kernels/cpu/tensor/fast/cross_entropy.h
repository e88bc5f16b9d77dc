// cross_entropy.h: cross entropy of rows of logits with integer targets, and its gradient.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tensor/tensor_rows.h"

namespace veery {

/// The loss of a row is (1 - s) (lse - x[target]) + s mean(lse - x) with lse = ln(sum(e^x)) and the
/// label smoothing s. Wide: f64 if the logits are f64, else f32. The sums of a row are taken over
/// chunks of 1,024 classes in 16 lanes, and those of the chunks in f64 in their order.
struct CrossEntropyProblem {
  TensorRows rows;  ///< of the logits
  StridedElements logits;
  /// [rows], each below the number of classes; negative: the row has no loss and no gradient.
  const int64_t* targets = nullptr;
  double smoothing = 0;

  int64_t classes() const { return rows.columns(); }
};

/// Writes the wide losses and lse of all rows; 0 for rows without a loss.
void cross_entropy(const CrossEntropyProblem& problem, std::byte* losses, std::byte* log_sums,
                   Target target, ThreadPool& pool);

struct CrossEntropyGradient {
  const std::byte* log_sums = nullptr;    ///< [rows], wide, from cross_entropy()
  const std::byte* cotangents = nullptr;  ///< [rows], wide
  std::byte* logits = nullptr;            ///< the result, contiguous, of the type of the logits
};
void cross_entropy_gradient(const CrossEntropyProblem& problem,
                            const CrossEntropyGradient& gradient, Target target, ThreadPool& pool);

}  // namespace veery

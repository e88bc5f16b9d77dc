// norm.h: RMS norm and layer norm of the rows of a tensor, and their gradients.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tensor/tensor_rows.h"

namespace veery {

/// A norm over the last dimension of x: y = c / sqrt(mean(c^2) + eps) * weight + bias with c = x,
/// or x - mean(x) if `centred`. All tensors have the float type of x.
struct NormProblem {
  TensorRows rows;
  bool centred = false;
  double eps = 0;
  StridedElements x;
  /// strides[0] is between the elements. No data: 1 and 0.
  StridedElements weight, bias;
};

/// Writes y, contiguous.
void norm(const NormProblem& problem, std::byte* y, Target target, ThreadPool& pool);

/// The products of the cotangent of y with the Jacobian, contiguous; those that are null are not
/// computed. The gradients of weight and bias are sums over rows: in order over chunks of rows,
/// whose size depends on the shape alone, and then over the chunks in f64.
struct NormGradients {
  StridedElements cotangent;
  std::byte* x = nullptr;
  std::byte* weight = nullptr;
  std::byte* bias = nullptr;
};
void norm_gradients(const NormProblem& problem, const NormGradients& gradients, Target target,
                    ThreadPool& pool);

}  // namespace veery

// Norms of vectors and matrices.
#include <cmath>
#include <veery/tensor_linalg.hpp>

#include "tensor/linalg/matrices.h"

namespace veery::tensor::linalg {
namespace {

// The root of sums of squares, whose derivative at 0 is 0 rather than NaN.
Tensor root(const Tensor& squares) {
  const Tensor is_zero = equal(squares, 0);
  return where(is_zero, 0, sqrt(where(is_zero, 1, squares)));
}

// f16, bf16 and integers as f32.
Tensor as_real(const Tensor& x) { return x.dtype() == Dtype::kF64 ? x : astype(x, Dtype::kF32); }

}  // namespace

Tensor vector_norm(const Tensor& x, const Axes& axes, double order, bool keep) {
  require("vector_norm", x);
  if (std::isnan(order)) fail(ErrorKind::kInput, "vector_norm: the order is NaN");
  const Tensor real = as_real(x);
  Tensor norm;
  if (order == 2)
    norm = root(sum(real * real, axes, keep));
  else if (order == 1)
    norm = sum(abs(real), axes, keep);
  else if (order == 0)
    norm = sum(astype(not_equal(real, 0), real.dtype()), axes, keep);
  else if (std::isinf(order))
    norm = order > 0 ? max(abs(real), axes, keep) : min(abs(real), axes, keep);
  else
    norm = pow(sum(pow(abs(real), order), axes, keep), 1 / order);
  return is_float(x.dtype()) ? astype(norm, x.dtype()) : norm;
}

Tensor matrix_norm(const Tensor& x, MatrixOrder order, bool keep) {
  if (order == MatrixOrder::kFrobenius) {
    require("matrix_norm", x);
    if (x.rank() < 2)
      fail(ErrorKind::kInput, "matrix_norm: shape {}, expected 2 dimensions or more",
           text(x.shape()));
    return vector_norm(x, {-2, -1}, 2, keep);
  }
  require_matrix("matrix_norm", x);
  Tensor norm;
  switch (order) {
    case MatrixOrder::kFrobenius: break;
    case MatrixOrder::kColumns: norm = max(sum(abs(x), {-2}), {-1}); break;
    case MatrixOrder::kLeastColumns: norm = min(sum(abs(x), {-2}), {-1}); break;
    case MatrixOrder::kRows: norm = max(sum(abs(x), {-1}), {-1}); break;
    case MatrixOrder::kLeastRows: norm = min(sum(abs(x), {-1}), {-1}); break;
    case MatrixOrder::kNuclear: norm = sum(svd(x).s, {-1}); break;
    case MatrixOrder::kSpectral: norm = max(svd(x).s, {-1}); break;
    case MatrixOrder::kLeastSingular: norm = min(svd(x).s, {-1}); break;
  }
  return keep ? reshape(norm, with_matrix(x.shape(), {1, 1})) : norm;
}

}  // namespace veery::tensor::linalg

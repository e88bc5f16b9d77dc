// tensor_linalg.hpp: linear algebra of tensors. docs/tensor.md is a guide.
//
// Matrices are the last two dimensions of f32 or f64 tensors; dimensions before them are batches.
// Decompositions run on the host (Eigen) in f64, each matrix by one thread, so that results do not
// depend on the number of threads; those of f32 are rounded. All functions have derivatives of any
// order, in both modes, and rules for vmap(). Wrong shapes and types throw kInput at once; eval()
// throws kInput for singular or not positive definite matrices, naming the index of the matrix in
// its batch.
#ifndef VEERY_TENSOR_LINALG_HPP
#define VEERY_TENSOR_LINALG_HPP

#include "veery/tensor.hpp"

namespace veery::tensor {

/// The sum of products of floats that a formula of labels says, as in numpy: "bij,bjk->bik".
/// Letters are labels of dimensions; those that the result lacks are summed, those that one operand
/// has twice select its diagonal. Without "->" the result has the labels that occur once, sorted.
/// Products are taken from left to right, each as matmul(). Throws kInput for other formulas (there
/// is no "...") and sizes that differ.
Tensor einsum(std::string_view formula, std::span<const Tensor> operands);

}  // namespace veery::tensor

namespace veery::tensor::linalg {

/// (sum |x|^order)^(1 / order) over `axes`, empty: all. Order infinity gives the largest |x|,
/// -infinity the smallest, 0 the number of elements that are not 0. The derivative at 0 is 0 for
/// order 2.
Tensor vector_norm(const Tensor& x, const Axes& axes = {}, double order = 2, bool keep = false);

enum class MatrixOrder : uint8_t {
  kFrobenius,      ///< the root of the sum of squares
  kNuclear,        ///< the sum of the singular values
  kColumns,        ///< 1: the largest sum of |x| of a column
  kLeastColumns,   ///< -1: the smallest one
  kRows,           ///< infinity: the largest sum of |x| of a row
  kLeastRows,      ///< -infinity: the smallest one
  kSpectral,       ///< 2: the largest singular value
  kLeastSingular,  ///< -2: the smallest one
};
/// The norm of each matrix. `keep`: both dimensions stay, with size 1.
Tensor matrix_norm(const Tensor& x, MatrixOrder order = MatrixOrder::kFrobenius, bool keep = false);

struct Qr {
  Tensor q;  ///< [.., m, min(m, n)], orthonormal columns
  Tensor r;  ///< [.., min(m, n), n], upper triangular
};
/// x [.., m, n] = q r by Householder reflections; the diagonal of r may be negative. Derivatives
/// need the first min(m, n) columns to be independent.
Qr qr(const Tensor& x);

/// The lower triangular l with l l^T = x, of a symmetric positive definite x [.., n, n], whose
/// upper triangle is not read. Its gradient is symmetric.
Tensor cholesky(const Tensor& x);

struct Svd {
  Tensor u;  ///< [.., m, k], k = min(m, n), orthonormal columns
  Tensor s;  ///< [.., k], descending
  Tensor v;  ///< [.., k, n], orthonormal rows
};
/// x [.., m, n] = u diag(s) v. The signs of pairs of vectors are arbitrary. Derivatives of u and v
/// are infinite where singular values are equal, or 0 beside a longer side; those of s are not.
Svd svd(const Tensor& x);

/// The solution of a x = b for a [.., n, n]: b [n], or b [.., n, k], whose batches are broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
/// As solve(), for a triangular a; the other triangle is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper);
Tensor inv(const Tensor& x);

}  // namespace veery::tensor::linalg

#endif  // VEERY_TENSOR_LINALG_HPP

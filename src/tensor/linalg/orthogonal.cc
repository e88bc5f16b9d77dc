// Decompositions with orthogonal factors.
#include "tensor/linalg/eigen-inl.h"
//
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <veery/tensor_linalg.hpp>

#include "tensor/linalg/matrices.h"

namespace veery::tensor::linalg {
namespace {

// x [.., m, n], m >= n. Outputs: q, r.
class QrOperation : public MatrixOperation {
 public:
  std::string_view name() const override { return "qr"; }
  bool is_same(const Operation& other) const override { return has_same(*this, other); }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Data x = contiguous(in[0], Dtype::kF64);
    Data q = new_f64(out[0]), r = new_f64(out[1]);
    const int64_t n = in[0].spec->shape.back(), m = out[0].shape[out[0].shape.size() - 2];
    each_matrix(name(), matrix_count(out[0].shape), m * n * n, "", [&](int64_t i) {
      if (n == 0) return true;
      const Eigen::HouseholderQR<MatrixXd> qr(matrix(x, i, m, n));
      matrix(q, i, m, n) = MatrixXd(qr.householderQ() * MatrixXd::Identity(m, n));
      matrix(r, i, n, n) = MatrixXd(qr.matrixQR().topRows(n).triangularView<Eigen::Upper>());
      return true;
    });
    return {rounded(std::move(q), out[0]), rounded(std::move(r), out[1])};
  }
  // Roberts and Roberts, QR and LQ Decomposition Matrix Backpropagation Algorithms, 2020.
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    const Tensor &q = out[0], &r = out[1], &of_q = cotangents[0], &of_r = cotangents[1];
    Tensor m;
    if (of_r) m = matmul(r, transposed(triu(of_r)));
    if (of_q) {
      const Tensor product = matmul(transposed(of_q), q);
      m = m ? m - product : -product;
    }
    const Tensor symmetric = tril(m) + transposed(tril(m, -1));
    Tensor left = matmul(q, symmetric);
    if (of_q) left = left + of_q;
    return {transposed(solve_triangular(r, transposed(left), true))};
  }

 private:
  std::shared_ptr<const Operation> clone() const override {
    return std::make_shared<QrOperation>();
  }
};

// x [.., m, n]. Outputs: u, s, v.
class SvdOperation : public MatrixOperation {
 public:
  std::string_view name() const override { return "svd"; }
  bool is_same(const Operation& other) const override { return has_same(*this, other); }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Data x = contiguous(in[0], Dtype::kF64);
    Data u = new_f64(out[0]), s = new_f64(out[1]), v = new_f64(out[2]);
    const Shape& shape = in[0].spec->shape;
    const int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
    each_matrix(name(), matrix_count(shape), m * n * k, "the matrix has NaN or infinite elements",
                [&](int64_t i) {
                  if (k == 0) return true;
                  const MatrixXd a = matrix(x, i, m, n);
                  if (!a.allFinite()) return false;
                  const Eigen::BDCSVD<MatrixXd> svd(a, Eigen::ComputeThinU | Eigen::ComputeThinV);
                  matrix(u, i, m, k) = svd.matrixU();
                  matrix(s, i, k, 1) = svd.singularValues();
                  matrix(v, i, k, n) = svd.matrixV().transpose();
                  return true;
                });
    return {rounded(std::move(u), out[0]), rounded(std::move(s), out[1]),
            rounded(std::move(v), out[2])};
  }
  // Giles, Collected matrix derivative results for forward and reverse mode algorithmic
  // differentiation, 2008, with the parts that are orthogonal to u and v.
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    const Tensor &u = out[0], &s = out[1], &v = out[2];
    const Tensor &of_u = cotangents[0], &of_s = cotangents[1], &of_v = cotangents[2];
    const Tensor row = expand_dims(s, -2), column = expand_dims(s, -1);
    const Tensor is_diagonal = eye(s.dim(-1), {}, 0, Dtype::kBool);
    const auto skew = [&](const Tensor& t) {
      const Tensor gap = where(is_diagonal, 1, (row - column) * (row + column));
      return (t - transposed(t)) / gap;
    };
    Tensor inner = of_s ? where(is_diagonal, expand_dims(of_s, -1), 0) : Tensor{};
    const auto add = [&](const Tensor& t) { inner = inner ? inner + t : t; };
    if (of_u) add(skew(matmul(transposed(u), of_u)) * row);
    if (of_v) add(column * skew(matmul(v, transposed(of_v))));
    Tensor x = matmul(matmul(u, inner), v);
    if (of_u && u.dim(-2) > u.dim(-1))
      x = x + matmul((of_u - matmul(u, matmul(transposed(u), of_u))) / row, v);
    if (of_v && v.dim(-1) > v.dim(-2))
      x = x + matmul(u, (of_v - matmul(matmul(of_v, transposed(v)), v)) / column);
    return {x};
  }

 private:
  std::shared_ptr<const Operation> clone() const override {
    return std::make_shared<SvdOperation>();
  }
};

Tensor columns(const Tensor& x, std::optional<int64_t> from, std::optional<int64_t> to) {
  std::vector<Slice> slices(static_cast<size_t>(x.rank()));
  slices.back() = {from, to, 1};
  return slice(x, slices);
}

}  // namespace

Qr qr(const Tensor& x) {
  require_matrix("qr", x);
  const int64_t m = x.dim(-2), n = x.dim(-1);
  if (m < n) {  // the first columns determine q
    const auto [q, r] = qr(columns(x, {}, m));
    return {q, concatenate({r, matmul(transposed(q), columns(x, m, {}))}, -1)};
  }
  const std::vector<Tensor> made =
      make_all(std::make_shared<QrOperation>(), {x},
               {{x.shape(), x.dtype()}, {with_matrix(x.shape(), {n, n}), x.dtype()}});
  return {made[0], made[1]};
}

Svd svd(const Tensor& x) {
  require_matrix("svd", x);
  const int64_t m = x.dim(-2), n = x.dim(-1), k = std::min(m, n);
  const std::vector<Tensor> made = make_all(std::make_shared<SvdOperation>(), {x},
                                            {{with_matrix(x.shape(), {m, k}), x.dtype()},
                                             {with_matrix(x.shape(), {k}), x.dtype()},
                                             {with_matrix(x.shape(), {k, n}), x.dtype()}});
  return {made[0], made[1], made[2]};
}

}  // namespace veery::tensor::linalg

// Systems of linear equations; Cholesky decompositions.
#include "tensor/linalg/eigen-inl.h"
//
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <veery/tensor_linalg.hpp>

#include "tensor/linalg/matrices.h"

namespace veery::tensor::linalg {
namespace {

enum class Form : uint8_t { kGeneral, kLower, kUpper };

Tensor solve_form(std::string_view function, const Tensor& a, const Tensor& b, Form form);

Form transposed_form(Form form) {
  if (form == Form::kGeneral) return form;
  return form == Form::kLower ? Form::kUpper : Form::kLower;
}

// a [.., n, n], b [.., n, k]
class Solve : public MatrixOperation {
 public:
  Solve(std::string_view function, Form form) : function_(function), form_(form) {}
  std::string_view name() const override { return function_; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Solve::form_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Data a = contiguous(in[0], Dtype::kF64), b = contiguous(in[1], Dtype::kF64);
    Data x = new_f64(out.front());
    const int64_t n = in[0].spec->shape.back(), k = in[1].spec->shape.back();
    each_matrix(name(), matrix_count(out.front().shape), n * n * n, "the matrix is singular",
                [&](int64_t i) {
                  return solve_one(matrix(a, i, n, n), matrix(b, i, n, k), matrix(x, i, n, k));
                });
    return {rounded(std::move(x), out.front())};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override {
    const Tensor of_b =
        solve_form(function_, transposed(in[0]), cotangents.front(), transposed_form(form_));
    if (!wanted[0]) return {{}, of_b};
    const Tensor of_a = -matmul(of_b, transposed(out.front()));
    return {form_ == Form::kGeneral ? of_a : form_ == Form::kLower ? tril(of_a) : triu(of_a), of_b};
  }

 private:
  bool solve_one(const MatrixXd& a, const MatrixXd& b, Eigen::Map<RowMajor> x) const {
    if (a.rows() == 0) return true;
    if (form_ == Form::kGeneral) {
      const Eigen::PartialPivLU<MatrixXd> lu(a);
      if ((lu.matrixLU().diagonal().array() == 0).any()) return false;
      x = lu.solve(b);
      return true;
    }
    if ((a.diagonal().array() == 0).any()) return false;
    if (form_ == Form::kLower)
      x = a.triangularView<Eigen::Lower>().solve(b);
    else
      x = a.triangularView<Eigen::Upper>().solve(b);
    return true;
  }
  std::shared_ptr<const Operation> clone() const override {
    return std::make_shared<Solve>(function_, form_);
  }
  std::string_view function_;  ///< for messages
  Form form_;
};

Tensor solve_form(std::string_view function, const Tensor& a, const Tensor& b, Form form) {
  return make(Solve(function, form), {a, b}, {b.shape(), b.dtype()});
}

Tensor solved(std::string_view function, const Tensor& a, const Tensor& b, Form form) {
  require_square(function, a);
  require(function, b);
  if (b.dtype() != a.dtype())
    fail(ErrorKind::kInput, "{}: operands of {} and {}, expected one type", function,
         name(a.dtype()), name(b.dtype()));
  const Tensor columns = b.rank() == 1 ? expand_dims(b, 1) : b;
  if (columns.rank() < 2 || columns.dim(-2) != a.dim(-1))
    fail(ErrorKind::kInput, "{}: shapes {} and {}: {} columns and {} rows", function,
         text(a.shape()), text(b.shape()), a.dim(-1), columns.rank() < 2 ? 1 : columns.dim(-2));
  const Shape batch = broadcast(function, {a.shape().begin(), a.shape().end() - 2},
                                {columns.shape().begin(), columns.shape().end() - 2});
  const auto with_batch = [&](const Tensor& m) {
    Shape shape = batch;
    shape.insert(shape.end(), {m.dim(-2), m.dim(-1)});
    return broadcast_to(m, shape);
  };
  const Tensor x = solve_form(function, with_batch(a), with_batch(columns), form);
  return b.rank() == 1 ? squeeze(x, {-1}) : x;
}

class Cholesky : public MatrixOperation {
 public:
  std::string_view name() const override { return "cholesky"; }
  bool is_same(const Operation& other) const override { return has_same(*this, other); }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Data x = contiguous(in[0], Dtype::kF64);
    Data l = new_f64(out.front());
    const int64_t n = out.front().shape.back();
    each_matrix(name(), matrix_count(out.front().shape), n * n * n,
                "the matrix is not positive definite", [&](int64_t i) {
                  if (n == 0) return true;
                  const Eigen::LLT<MatrixXd> llt(matrix(x, i, n, n));
                  if (llt.info() != Eigen::Success) return false;
                  matrix(l, i, n, n) = MatrixXd(llt.matrixL());
                  return true;
                });
    return {rounded(std::move(l), out.front())};
  }
  // Murray, Differentiation of the Cholesky decomposition, 2016, eq. 10.
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    const Tensor& l = out.front();
    const Tensor upper = transposed(l);
    const Tensor product = tril(matmul(upper, tril(cotangents.front())));
    // The diagonal counts half.
    const Tensor half = (product + tril(product, -1)) * 0.5;
    const Tensor left = solve_form(name(), upper, half, Form::kUpper);
    const Tensor both = transposed(solve_form(name(), upper, transposed(left), Form::kUpper));
    return {(both + transposed(both)) * 0.5};
  }

 private:
  std::shared_ptr<const Operation> clone() const override { return std::make_shared<Cholesky>(); }
};

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) { return solved("solve", a, b, Form::kGeneral); }
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper) {
  return solved("solve_triangular", a, b, upper ? Form::kUpper : Form::kLower);
}
Tensor inv(const Tensor& x) {
  require_square("inv", x);
  return solved("inv", x, eye(x.dim(-1), {}, 0, x.dtype()), Form::kGeneral);
}
Tensor cholesky(const Tensor& x) {
  require_square("cholesky", x);
  return make(Cholesky(), {x}, {x.shape(), x.dtype()});
}

}  // namespace veery::tensor::linalg

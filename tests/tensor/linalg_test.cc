// Linear algebra: definitions, derivatives, batches, errors.
#include <gtest/gtest.h>

#include "tensor/reference.h"
#include "veery/tensor_linalg.hpp"
#include "veery/tensor_transforms.hpp"

namespace veery::tensor::linalg {
namespace {

using test::distance;
using test::numbers;

using Tensors = std::vector<Tensor>;

Tensor flipped(const Tensor& x) { return swapaxes(x, -1, -2); }
Tensor identity(int64_t n, Dtype type) { return eye(n, {}, 0, type); }
Tensor positive(const Tensor& x) { return matmul(x, flipped(x)) + identity(x.dim(-2), x.dtype()); }
double precision(Dtype type) { return type == Dtype::kF64 ? 1e-12 : 2e-5; }

TEST(Linalg, DecompositionsMultiplyToTheMatrix) {
  const Shape shapes[] = {{4, 4}, {6, 3},   {3, 6},    {2, 3, 5, 2},
                          {1, 1}, {40, 30}, {0, 3, 3}, {3, 0}};
  for (const Dtype type : {Dtype::kF32, Dtype::kF64})
    for (const Shape& shape : shapes) {
      const Tensor x = numbers(shape, type, 1, -1, 1);
      const double most = precision(type);
      const int64_t k = std::min(x.dim(-1), x.dim(-2));
      const auto [q, r] = qr(x);
      EXPECT_EQ(q.dim(-1), k);
      EXPECT_LE(distance(matmul(q, r), x), most) << x.text();
      EXPECT_LE(distance(matmul(flipped(q), q),
                         broadcast_to(identity(k, type), matmul(flipped(q), q).shape())),
                most);
      EXPECT_EQ(distance(r, triu(r)), 0);
      const auto [u, s, v] = svd(x);
      EXPECT_EQ(s.dim(-1), k);
      EXPECT_LE(distance(matmul(u * expand_dims(s, -2), v), x), most);
      EXPECT_LE(distance(matmul(flipped(u), u),
                         broadcast_to(identity(k, type), matmul(flipped(u), u).shape())),
                most);
      EXPECT_EQ(distance(s, sort(s, -1, true)), 0);
      EXPECT_TRUE(all(s >= 0).item<bool>());
    }
}

TEST(Linalg, SolvesSystems) {
  for (const Dtype type : {Dtype::kF32, Dtype::kF64}) {
    const Tensor a = numbers({2, 1, 5, 5}, type, 2, -1, 1) + identity(5, type) * 3;
    const Tensor b = numbers({3, 5, 2}, type, 3);
    const double most = precision(type);
    EXPECT_LE(distance(matmul(a, solve(a, b)), broadcast_to(b, {2, 3, 5, 2})), most);
    EXPECT_LE(distance(matmul(a, inv(a)), broadcast_to(identity(5, type), a.shape())), most);
    const Tensor vector = numbers({5}, type, 4);
    EXPECT_EQ(solve(a, vector).shape(), (Shape{2, 1, 5}));
    EXPECT_LE(distance(matmul(a, expand_dims(solve(a, vector), -1)),
                       broadcast_to(expand_dims(vector, 1), {2, 1, 5, 1})),
              most);
    EXPECT_LE(
        distance(matmul(tril(a), solve_triangular(a, b, false)), broadcast_to(b, {2, 3, 5, 2})),
        most);
    EXPECT_LE(
        distance(matmul(triu(a), solve_triangular(a, b, true)), broadcast_to(b, {2, 3, 5, 2})),
        most);
    const Tensor p = positive(numbers({3, 4, 6}, type, 5, -1, 1));
    const Tensor l = cholesky(triu(p, 1) * 9 + tril(p));  // the upper triangle is not read
    EXPECT_LE(distance(matmul(l, flipped(l)), p), most);
    EXPECT_EQ(distance(l, tril(l)), 0);
  }
}

TEST(Linalg, HasTheNormsOfTheirDefinitions) {
  const Tensor x = Tensor::of<double>({3, -4, 0, 1, 2, -2}, {2, 3});
  EXPECT_DOUBLE_EQ(vector_norm(x).item<double>(), std::sqrt(34.0));
  EXPECT_DOUBLE_EQ(vector_norm(x, {}, 1).item<double>(), 12);
  EXPECT_DOUBLE_EQ(vector_norm(x, {}, 0).item<double>(), 5);
  EXPECT_DOUBLE_EQ(vector_norm(x, {}, INFINITY).item<double>(), 4);
  EXPECT_DOUBLE_EQ(vector_norm(x, {}, -INFINITY).item<double>(), 0);
  EXPECT_NEAR(vector_norm(x, {}, 3).item<double>(), std::cbrt(27 + 64 + 1 + 8 + 8), 1e-12);
  EXPECT_EQ(vector_norm(x, {1}, 2, true).shape(), (Shape{2, 1}));
  EXPECT_DOUBLE_EQ(matrix_norm(x).item<double>(), std::sqrt(34.0));
  EXPECT_DOUBLE_EQ(matrix_norm(x, MatrixOrder::kColumns).item<double>(), 6);
  EXPECT_DOUBLE_EQ(matrix_norm(x, MatrixOrder::kLeastColumns).item<double>(), 2);
  EXPECT_DOUBLE_EQ(matrix_norm(x, MatrixOrder::kRows).item<double>(), 7);
  EXPECT_DOUBLE_EQ(matrix_norm(x, MatrixOrder::kLeastRows).item<double>(), 5);
  // x x^T = [[25, -5], [-5, 9]]
  const double root = std::sqrt(64.0 + 25.0);
  const double largest = std::sqrt(17 + root), smallest = std::sqrt(17 - root);
  EXPECT_NEAR(matrix_norm(x, MatrixOrder::kSpectral).item<double>(), largest, 1e-12);
  EXPECT_NEAR(matrix_norm(x, MatrixOrder::kLeastSingular).item<double>(), smallest, 1e-12);
  EXPECT_NEAR(matrix_norm(x, MatrixOrder::kNuclear).item<double>(), largest + smallest, 1e-12);
  EXPECT_EQ(matrix_norm(x, MatrixOrder::kRows, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(vector_norm(astype(x, Dtype::kBF16)).dtype(), Dtype::kBF16);
  EXPECT_EQ(vector_norm(arange(0, 3)).dtype(), Dtype::kF32);
  const Tensor zero = zeros({3}, Dtype::kF64);
  const auto gradient = grad([](std::span<const Tensor> in) { return vector_norm(in[0]); });
  EXPECT_EQ(gradient({&zero, 1})[0].values<double>(), std::vector<double>(3));
}

TEST(Einsum, SumsProducts) {
  const Tensor a = numbers({3, 4}, Dtype::kF64, 11), b = numbers({4, 5}, Dtype::kF64, 12);
  const Tensor c = numbers({2, 3, 4}, Dtype::kF64, 13), s = numbers({4, 4}, Dtype::kF64, 14);
  const Tensor v = numbers({4}, Dtype::kF64, 15);
  const Tensor d = sum(s * identity(4, Dtype::kF64), {1});  // its diagonal
  const auto expect = [](std::string_view formula, const Tensors& operands,
                         const Tensor& expected) {
    EXPECT_LE(distance(einsum(formula, operands), expected), 1e-12) << formula;
  };
  expect("ij,jk->ik", {a, b}, matmul(a, b));
  expect("ij, jk", {a, b}, matmul(a, b));
  expect("ij,jk->ki", {a, b}, transpose(matmul(a, b)));
  expect("bij,jk->bik", {c, b}, matmul(c, b));
  expect("bij,bkj->bik", {c, c}, matmul(c, flipped(c)));
  expect("bij,ij->b", {c, a}, sum(c * a, {1, 2}));
  expect("bij,ij->bij", {c, a}, c * a);
  expect("ij->ji", {a}, transpose(a));
  expect("bij->i", {c}, sum(c, {0, 2}));
  expect("ii->i", {s}, d);
  expect("ii", {s}, sum(d));
  expect("ii,i->i", {s, v}, d * v);
  expect("i,i", {v, v}, sum(v * v));
  expect("i,j->ij", {v, v}, expand_dims(v, 1) * v);
  expect("ij,jk,k->i", {a, b, numbers({5}, Dtype::kF64, 16)},
         matmul(matmul(a, b), numbers({5}, Dtype::kF64, 16)));
  expect("ij,jk->", {a, b}, sum(matmul(a, b)));
  const Function fn = [](std::span<const Tensor> in) {
    return Tensors{einsum("bij,jk,ii->bk", in)};
  };
  const GradientCheck check =
      check_gradients(fn, std::array{c, b, numbers({3, 3}, Dtype::kF64, 17)});
  EXPECT_TRUE(check.passed) << check.text;
  EXPECT_THROW(einsum("ij,kj->ik", std::array{a, b}), Error);
  EXPECT_THROW(einsum("ij->ik", std::array{a}), Error);
  EXPECT_THROW(einsum("ij->ii", std::array{a}), Error);
  EXPECT_THROW(einsum("...j", std::array{a}), Error);
  EXPECT_THROW(einsum("ijk", std::array{a}), Error);
  EXPECT_THROW(einsum("ij,jk", std::array{a}), Error);
}

using Fn = std::function<Tensors(const Tensor&)>;

TEST(Linalg, HasDerivativesOfBothModesAndSecondOnes) {
  struct Case {
    const char* name;
    Shape shape;
    Fn fn;
  };
  const Tensor b = numbers({4, 2}, Dtype::kF64, 6);
  // Functions of the vectors that do not depend on their signs.
  const auto of_svd = [](const Tensor& x) {
    const Svd made = svd(x);
    return Tensors{made.s, square(made.u), square(made.v),
                   matmul(made.u * expand_dims(exp(made.s), -2), made.v)};
  };
  const Case cases[] = {
      {"qr",
       {4, 4},
       [](const Tensor& x) {
         return Tensors{qr(x).q, qr(x).r};
       }},
      {"tall qr",
       {2, 5, 3},
       [](const Tensor& x) {
         return Tensors{qr(x).q, qr(x).r};
       }},
      {"wide qr",
       {3, 5},
       [](const Tensor& x) {
         return Tensors{qr(x).q, qr(x).r};
       }},
      {"r", {5, 3}, [](const Tensor& x) { return Tensors{qr(x).r}; }},
      {"svd", {4, 4}, of_svd},
      {"tall svd", {5, 3}, of_svd},
      {"wide svd", {2, 3, 4}, of_svd},
      {"singular values", {3, 3}, [](const Tensor& x) { return Tensors{svd(x).s}; }},
      {"cholesky", {2, 4, 4}, [](const Tensor& x) { return Tensors{cholesky(positive(x))}; }},
      {"solve", {2, 4, 4}, [&](const Tensor& x) { return Tensors{solve(x, b * sum(x))}; }},
      {"lower", {4, 4}, [&](const Tensor& x) { return Tensors{solve_triangular(x, b, false)}; }},
      {"upper", {4, 4}, [&](const Tensor& x) { return Tensors{solve_triangular(x, b, true)}; }},
      {"inv", {3, 3}, [](const Tensor& x) { return Tensors{inv(x)}; }},
      {"norms", {3, 4}, [](const Tensor& x) {
         return Tensors{vector_norm(x, {1}),
                        vector_norm(x, {0}, 3),
                        vector_norm(x, {}, INFINITY),
                        matrix_norm(x, MatrixOrder::kNuclear),
                        matrix_norm(x),
                        matrix_norm(x, MatrixOrder::kSpectral),
                        matrix_norm(x, MatrixOrder::kColumns)};
       }}};
  for (const Case& c : cases) {
    Tensor x = numbers(c.shape, Dtype::kF64, 7, -1, 1);
    if (x.dim(-1) == x.dim(-2)) x = x + identity(x.dim(-1), Dtype::kF64) * 2;
    const Function fn = [&](std::span<const Tensor> in) { return c.fn(in[0]); };
    const GradientCheck first = check_gradients(fn, {&x, 1}, {.tolerance = 1e-6});
    EXPECT_TRUE(first.passed) << c.name << ": " << first.text;
    const Function gradient = [&](std::span<const Tensor> in) {
      return grad([&](std::span<const Tensor> at) {
        Tensor total;
        for (const Tensor& y : c.fn(at[0])) {
          const Tensor part = sum(y * numbers(y.shape(), Dtype::kF64, 8));
          total = total ? total + part : part;
        }
        return total;
      })(in);
    };
    const GradientCheck second =
        check_gradients(gradient, {&x, 1}, {.directions = 2, .tolerance = 1e-5});
    EXPECT_TRUE(second.passed) << c.name << " twice: " << second.text;
  }
}

TEST(Linalg, IsMapped) {
  const Tensor x = numbers({5, 3, 3}, Dtype::kF64, 9, -1, 1) + identity(3, Dtype::kF64) * 2;
  const Tensor b = numbers({3, 2}, Dtype::kF64, 10);
  const Function fn = [](std::span<const Tensor> in) {
    return Tensors{qr(in[0]).r, svd(in[0]).s, cholesky(positive(in[0])), solve(in[0], in[1]),
                   inv(in[0])};
  };
  const Tensors found = vmap(fn, {0, std::nullopt})(std::array{x, b});
  const Tensors expected = fn(std::array{x, b});
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].values<double>(), expected[i].values<double>()) << i;
}

void expect_error(const Tensor& x, const char* word) {
  try {
    x.eval();
    FAIL() << word;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos) << error.what();
  }
}

TEST(Linalg, HasTypedErrors) {
  const Tensor singular = stack({identity(3, Dtype::kF32), zeros({3, 3})});
  expect_error(inv(singular), "inv: the matrix is singular (matrix 1 of 2)");
  expect_error(solve(singular, ones({3})), "singular");
  expect_error(solve_triangular(singular, ones({3, 1}), true), "singular");
  expect_error(cholesky(-identity(2, Dtype::kF64)),
               "cholesky: the matrix is not positive definite");
  expect_error(svd(full({2, 2}, NAN)).s, "NaN");
  EXPECT_THROW(qr(ones({3})), Error);
  EXPECT_THROW(qr(ones({3, 3}, Dtype::kBF16)), Error);
  EXPECT_THROW(inv(ones({3, 2})), Error);
  EXPECT_THROW(solve(ones({3, 3}), ones({2, 1})), Error);
  EXPECT_THROW(solve(ones({3, 3}), ones({3, 1}, Dtype::kF64)), Error);
  EXPECT_THROW(solve(ones({2, 3, 3}), ones({4, 3, 1})), Error);
  EXPECT_THROW(matrix_norm(ones({3})), Error);
}

}  // namespace
}  // namespace veery::tensor::linalg

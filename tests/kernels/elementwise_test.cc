#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

struct Unary {
  Op op;
  Attr attr;
};

Unary activation(Activation kind) { return {op::kActivate, ActivateAttr(kind)}; }
Unary xielu(float eps) { return {op::kActivate, ActivateAttr::xielu(0.6F, 0.9F, 0.4F, eps)}; }

TEST(Elementwise, FastIsTheReferenceAtOddSizes) {
  Random random(1);
  for (int32_t cols : {1, 15, 16, 17, 31, 100, 5000}) {
    const int64_t rows = 3;
    const Matrix a = random_matrix(rows, cols, random, 3);
    const Matrix b = random_matrix(rows, cols, random, 3);
    for (const Unary& u : {Unary{op::kAdd, {}}, Unary{op::kMul, {}},
                           Unary{op::kScale, ScaleAttr{0.3F}}, Unary{op::kSoftcap, ScaleAttr{2}},
                           activation(Activation::kSilu), activation(Activation::kGelu),
                           activation(Activation::kGeluErf), activation(Activation::kRelu),
                           activation(Activation::kReluSquared), activation(Activation::kTanh),
                           activation(Activation::kSigmoid), activation(Activation::kSoftplus),
                           activation(Activation::kLogSigmoid), xielu(-1e-6F), xielu(-0.7F)}) {
      std::vector<Operand> in = {a.operand};
      if (u.op->input_count() == 2) in.push_back(b.operand);
      Matrix expected(rows, cols);
      run(u.op, in, expected.operand, u.attr, plain_shape(rows));
      std::vector<Matrix> fast;
      for (Target target : supported_targets()) {
        if (target == Target::kReference) continue;
        for (int workers : {1, 2, 3}) {
          fast.emplace_back(rows, cols);
          fast.back()[0][cols] = 77;  // a guard outside the matrix
          run(u.op, in, fast.back().operand, u.attr, plain_shape(rows),
              {.target = target, .workers = workers});
          expect_near(fast.back(), expected, 1e-6, u.op->name.data());
          expect_same_bits(fast.back(), fast[0], u.op->name.data());
          EXPECT_EQ(fast.back()[0][cols], 77);
        }
      }
    }
  }
}

TEST(Elementwise, ActivationsAtTheEdges) {
  const float edges[] = {0.0F, -0.0F, 1e-30F, -1e-30F, 40, -40, 90, -90, 3e38F, -3e38F};
  Matrix x(1, 10);
  std::copy(std::begin(edges), std::end(edges), x[0]);
  for (const Unary& u : {activation(Activation::kSilu), activation(Activation::kGelu),
                         activation(Activation::kGeluErf), activation(Activation::kRelu),
                         Unary{op::kSoftcap, ScaleAttr{30}}}) {
    Matrix expected(1, 10);
    run(u.op, {x.operand}, expected.operand, u.attr, plain_shape(1));
    for (Target target : supported_targets()) {
      Matrix y(1, 10);
      run(u.op, {x.operand}, y.operand, u.attr, plain_shape(1), {.target = target});
      expect_near(y, expected, 1e-6, u.op->name.data());
    }
  }
}

TEST(Elementwise, GeluErfIsExactFarFromZero) {
  const int count = 4001;
  Matrix x(1, count);
  for (int i = 0; i < count; ++i) x[0][i] = -10 + 0.005F * static_cast<float>(i);
  for (Target target : supported_targets()) {
    Matrix y(1, count);
    run(op::kActivate, {x.operand}, y.operand, ActivateAttr(Activation::kGeluErf), plain_shape(1),
        {.target = target});
    for (int i = 0; i < count; ++i) {
      const double v = x[0][i];
      const double want = v / 2 * std::erfc(-v / std::sqrt(2.0));
      EXPECT_NEAR(y[0][i], want, 2e-5 * std::abs(want)) << v << " " << name(target);
      EXPECT_NEAR(y[0][i], want, 6e-7 * (1 + std::abs(v))) << v << " " << name(target);
    }
  }
}

// The published parameters: alpha_p 0.8, alpha_n 0.8, beta 0.5.
TEST(Elementwise, XieluIsItsFormula) {
  const ActivateAttr attr = ActivateAttr::xielu(0.8F, 0.8F, 0.5F, -1e-6F);
  const float points[] = {-1e30F, -90, -3, -0.5F, -1e-3F, 0, 1e-3F, 0.5F, 3, 40};
  constexpr int kPoints = std::size(points);
  Matrix x(1, kPoints);
  std::copy(std::begin(points), std::end(points), x[0]);
  for (Target target : supported_targets()) {
    Matrix y(1, kPoints);
    run(op::kActivate, {x.operand}, y.operand, attr, plain_shape(1), {.target = target});
    for (int i = 0; i < kPoints; ++i) {
      const double v = points[i];
      const double want = (v > 0 ? 0.8 * v * v : 0.8 * (std::expm1(v) - v)) + 0.5 * v;
      EXPECT_NEAR(y[0][i], want, 1e-6 * (1 + std::abs(want))) << v << " " << name(target);
    }
  }
}

// One row for all rows, and one element per part of a row.
TEST(Elementwise, OneInputMayBeBroadcast) {
  Random random(5);
  const Matrix a = random_matrix(7, 60, random);
  const struct {
    Op op;
    int64_t rows;
    int32_t cols;
  } cases[] = {{op::kAdd, 1, 60}, {op::kMul, 1, 60}, {op::kMul, 7, 3}, {op::kMul, 1, 20}};
  for (const auto& c : cases) {
    const Matrix b = random_matrix(c.rows, c.cols, random);
    Matrix expected(7, 60);
    for (int64_t r = 0; r < 7; ++r)
      for (int32_t i = 0; i < 60; ++i) {
        const float other = b[c.rows == 1 ? 0 : r][i / (60 / c.cols)];
        expected[r][i] = c.op == op::kAdd ? a[r][i] + other : a[r][i] * other;
      }
    for (Target target : supported_targets())
      for (int workers : {1, 3}) {
        Matrix y(7, 60);
        run(c.op, {a.operand, b.operand}, y.operand, {}, plain_shape(7), {target, workers});
        expect_same_bits(y, expected, name(target).data());
      }
    Matrix sums(c.rows, c.cols);
    run(op::kSumTo, {a.operand, b.operand}, sums.operand, {}, plain_shape(7), {});
    for (int64_t r = 0; r < c.rows; ++r)
      for (int32_t i = 0; i < c.cols; ++i) {
        double sum = 0;
        for (int64_t t = 0; t < 7; ++t)
          for (int32_t k = 0; k < 60; ++k)
            if ((c.rows == 1 || t == r) && k / (60 / c.cols) == i) sum += a[t][k];
        EXPECT_NEAR(sums[r][i], sum, 1e-5);
      }
  }
}

TEST(Elementwise, NansPropagate) {
  Matrix x(1, 3);
  std::fill_n(x[0], 3, std::nanf(""));
  for (const Unary& u : {activation(Activation::kSilu), activation(Activation::kRelu),
                         activation(Activation::kReluSquared), activation(Activation::kTanh),
                         activation(Activation::kSigmoid), activation(Activation::kSoftplus),
                         activation(Activation::kLogSigmoid), xielu(-1e-6F)})
    for (Target target : supported_targets()) {
      Matrix y(1, 3);
      run(u.op, {x.operand}, y.operand, u.attr, plain_shape(1), {.target = target});
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[0][i])) << name(target);
    }
}

TEST(Argmax, FastIsTheReference) {
  Random random(2);
  for (int32_t cols : {1, 7, 16, 4096, 4097, 20000}) {
    Matrix x = random_matrix(5, cols, random);
    for (int r = 1; r < 5; ++r) {
      const auto next = [&] {
        return static_cast<int32_t>(random.next() % static_cast<uint32_t>(cols));
      };
      x[r][next()] = x[r][next()] = 9;  // equal maxima, possibly in different pieces
    }
    Matrix expected(5, 1, DType::kI32);
    run(op::kArgmax, {x.operand}, expected.operand, {}, plain_shape(5));
    for (Target target : supported_targets()) {
      for (int workers : {1, 3}) {
        Matrix y(5, 1, DType::kI32);
        run(op::kArgmax, {x.operand}, y.operand, {}, plain_shape(5),
            {.target = target, .workers = workers});
        for (int r = 0; r < 5; ++r)
          EXPECT_EQ(*y.operand.row<int32_t>(r), *expected.operand.row<int32_t>(r));
      }
    }
  }
}

}  // namespace
}  // namespace veery::test

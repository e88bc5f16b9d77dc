#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

TEST(LayerNorm, FastIsTheReferenceInOneBitPattern) {
  Random random(1);
  for (int32_t n : {1, 15, 16, 63, 64, 65, 100, 576, 1000})
    for (const auto& [groups, shared] : {std::pair(1, true), {3, true}, {3, false}})
      for (bool with_bias : {false, true}) {
        const int32_t cols = n * groups;
        Matrix x = random_matrix(4, cols, random, 2);
        for (int32_t c = 0; c < cols; ++c) x[1][c] += 100;  // far from 0
        const Matrix w = random_matrix(1, shared ? n : cols, random);
        const Matrix b = random_matrix(1, shared ? n : cols, random);
        const Operand third = with_bias ? b.operand : Operand{};
        const NormAttr attr{1e-5F, groups};
        Matrix expected(4, cols);
        run(op::kLayerNorm, {x.operand, w.operand, third}, expected.operand, attr, plain_shape(4));
        std::vector<Matrix> fast;
        for (Target target : supported_targets()) {
          if (target == Target::kReference) continue;
          for (int workers : {1, 2, 3}) {
            fast.emplace_back(4, cols);
            fast.back()[3][cols] = 77;  // a guard outside the matrix
            run(op::kLayerNorm, {x.operand, w.operand, third}, fast.back().operand, attr,
                plain_shape(4), {.target = target, .workers = workers});
            expect_near(fast.back(), expected, 1e-4);
            expect_same_bits(fast.back(), fast[0]);
            EXPECT_EQ(fast.back()[3][cols], 77);
          }
        }
      }
}

TEST(LayerNorm, ARowOfOneValueBecomesTheBias) {
  Random random(2);
  Matrix x(1, 37);
  std::fill_n(x[0], 37, 3.0F);
  const Matrix w = random_matrix(1, 37, random);
  const Matrix b = random_matrix(1, 37, random);
  for (Target target : supported_targets()) {
    Matrix y(1, 37);
    run(op::kLayerNorm, {x.operand, w.operand, b.operand}, y.operand, NormAttr{1e-5F},
        plain_shape(1), {.target = target});
    expect_near(y, b, 1e-5);
  }
}

}  // namespace
}  // namespace veery::test

#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

TEST(RmsNorm, FastIsTheReferenceInOneBitPattern) {
  Random random(1);
  for (int32_t n : {1, 15, 16, 63, 64, 65, 100, 576, 1000}) {
    for (int groups : {1, 3}) {
      for (bool with_residual : {false, true}) {
        const int32_t cols = n * groups;
        const Matrix x = random_matrix(4, cols, random, 2);
        const Matrix w = random_matrix(1, n, random);
        const Matrix residual = random_matrix(4, cols, random);
        const Operand third = with_residual ? residual.operand : Operand{};
        const Op op = with_residual ? op::kRmsNormAdd : op::kRmsNorm;
        const NormAttr attr{1e-5F, groups};
        Matrix expected(4, cols);
        run(op, {x.operand, w.operand, third}, expected.operand, attr, plain_shape(4));
        std::vector<Matrix> fast;
        for (Target target : supported_targets()) {
          if (target == Target::kReference) continue;
          for (int workers : {1, 2, 3}) {
            fast.emplace_back(4, cols);
            run(op, {x.operand, w.operand, third}, fast.back().operand, attr, plain_shape(4),
                {.target = target, .workers = workers});
            expect_near(fast.back(), expected, 2e-6);
            expect_same_bits(fast.back(), fast[0]);
          }
          // In place.
          Matrix same = random_matrix(4, cols, random);
          for (int r = 0; r < 4; ++r) std::copy_n(x[r], cols, same[r]);
          run(op, {same.operand, w.operand, third}, same.operand, attr, plain_shape(4),
              {.target = target});
          expect_same_bits(same, fast[0], "in place");
        }
      }
    }
  }
}

TEST(RmsNorm, InsideOfALinearGivesTheSameBits) {
  Random random(2);
  const int n = 77;
  const Matrix x = random_matrix(3, n, random);
  const Matrix norm = random_matrix(1, n, random);
  std::vector<float> plain(33 * n);
  for (float& w : plain) w = random.normal();
  AlignedBytes packed(packed_bytes(DType::kF32, 33, n));
  pack_panels(DType::kF32, reinterpret_cast<const std::byte*>(plain.data()), 33, n, packed.data(),
              0, 3);
  const Operand weight{
      packed.data(),  static_cast<int64_t>(panel_bytes(DType::kF32, n)), 33, n, DType::kF32,
      Layout::kPanels};
  for (Target target : supported_targets()) {
    if (target == Target::kReference) continue;
    Matrix normed(3, n), apart(3, 33), fused(3, 33);
    const RunWith with{.target = target, .workers = 2};
    run(op::kRmsNorm, {x.operand, norm.operand}, normed.operand, NormAttr{1e-5F}, plain_shape(3),
        with);
    run(op::kFusedLinear, {normed.operand, {}, {}, weight}, apart.operand, FusedLinearAttr{},
        plain_shape(3), with);
    run(op::kFusedLinear, {x.operand, norm.operand, {}, weight}, fused.operand,
        FusedLinearAttr{.eps = 1e-5F}, plain_shape(3), with);
    expect_same_bits(fused, apart, name(target).data());
  }
}

}  // namespace
}  // namespace veery::test

#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

/// A differentiable op with its inputs, attributes and spans.
struct Case {
  Op op;
  std::vector<Operand> in;
  Matrix out;
  Attr attr;
  RunShape shape;
  double tolerance = 1e-3;

  void forward() const { run(op, in, out.operand, attr, shape, {.workers = 3}); }
};

/// Compares `grad` with the gradient of sum(weight * forward) by input `which`, computed by central
/// differences.
void expect_gradient(const Case& c, const Matrix& weight, size_t which, const Matrix& grad) {
  const Operand& x = c.in[which];
  const auto loss = [&] {
    c.forward();
    double sum = 0;
    for (int64_t r = 0; r < c.out.operand.rows; ++r)
      for (int32_t k = 0; k < c.out.operand.cols; ++k) sum += double{weight[r][k]} * c.out[r][k];
    return sum;
  };
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int32_t k = 0; k < x.cols; ++k) {
      float& at = x.row<float>(r)[k];
      const float kept = at;
      const auto slope = [&](float step) {
        at = kept + step;
        const double up = loss();
        const float high = at;
        at = kept - step;
        const double down = loss();
        const double width = double{high} - at;
        at = kept;
        return (up - down) / width;
      };
      // Richardson extrapolation removes the second-order error.
      const double expected = (4 * slope(0.01F) - slope(0.02F)) / 3;
      ASSERT_NEAR(grad[r][k], expected, c.tolerance * (1 + std::abs(expected)))
          << "at " << r << ", " << k;
    }
  }
}

TEST(GradientKernels, OfActivations) {
  Random random(1);
  Matrix x = random_matrix(3, 17, random, 2);
  // ReLU has no derivative at 0, so differences must not cross it.
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 17; ++c)
      if (std::abs(x[r][c]) < 0.03F) x[r][c] = 0.03F;
  const Matrix dy = random_matrix(3, 17, random);
  Matrix dx(3, 17);
  const struct {
    Op forward, back;
    Attr attr;
  } ops[] = {{op::kActivate, op::kActivateBack, ActivateAttr(Activation::kSilu)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kGelu)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kGeluErf)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kRelu)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kReluSquared)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kTanh)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kSigmoid)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kSoftplus)},
             {op::kActivate, op::kActivateBack, ActivateAttr(Activation::kLogSigmoid)},
             {op::kActivate, op::kActivateBack, ActivateAttr::xielu(0.6F, 0.9F, 0.4F, -1e-6F)},
             {op::kSoftcap, op::kSoftcapBack, ScaleAttr{1.7F}}};
  for (const auto& op : ops) {
    const Case c{op.forward, {x.operand}, Matrix(3, 17), op.attr, plain_shape(3)};
    run(op.back, {dy.operand, x.operand}, dx.operand, op.attr, c.shape, {.workers = 2});
    expect_gradient(c, dy, 0, dx);
  }
}

TEST(GradientKernels, OfLinear) {
  Random random(2);
  const Matrix x = random_matrix(5, 7, random);
  const Matrix w = random_matrix(3, 7, random);
  const Matrix dy = random_matrix(5, 3, random);
  Matrix dx(5, 7);
  Matrix dw(3, 7);
  const Matrix bias = random_matrix(1, 3, random);
  Matrix db(1, 3);
  const Case c{op::kFusedLinear,
               {x.operand, {}, {}, w.operand, {}, {}, bias.operand},
               Matrix(5, 3),
               FusedLinearAttr{},
               plain_shape(5)};
  run(op::kLinearBackX, {dy.operand, w.operand}, dx.operand, {}, c.shape, {.workers = 2});
  run(op::kLinearBackW, {dy.operand, x.operand}, dw.operand, {}, c.shape, {.workers = 2});
  expect_gradient(c, dy, 0, dx);
  run(op::kBiasBack, {dy.operand, bias.operand}, db.operand, {}, c.shape, {.workers = 2});
  expect_gradient(c, dy, 3, dw);
  expect_gradient(c, dy, 6, db);
}

TEST(GradientKernels, OfRmsNormInGroups) {
  for (int groups : {1, 3}) {
    Random random(3);
    const Matrix x = random_matrix(4, 15, random);
    const Matrix w = random_matrix(1, 15 / groups, random);
    const Matrix dy = random_matrix(4, 15, random);
    Matrix dx(4, 15);
    Matrix dw(1, 15 / groups);
    const NormAttr attr{.eps = 0.1F, .groups = groups};
    const Case c{op::kRmsNorm, {x.operand, w.operand}, Matrix(4, 15), attr, plain_shape(4)};
    run(op::kRmsNormBackX, {dy.operand, x.operand, w.operand}, dx.operand, attr, c.shape,
        {.workers = 2});
    run(op::kRmsNormBackW, {dy.operand, x.operand}, dw.operand, attr, c.shape, {.workers = 2});
    expect_gradient(c, dy, 0, dx);
    expect_gradient(c, dy, 1, dw);
  }
}

TEST(GradientKernels, OfLayerNormWithOneWeightForAllPartsOrEachItsOwn) {
  for (const auto& [groups, shared] : {std::pair(1, true), {3, true}, {3, false}}) {
    Random random(8);
    const int32_t size = shared ? 15 / groups : 15;
    const Matrix x = random_matrix(4, 15, random);
    const Matrix w = random_matrix(1, size, random);
    const Matrix bias = random_matrix(1, size, random);
    const Matrix dy = random_matrix(4, 15, random);
    Matrix dx(4, 15);
    Matrix dw(1, size), db(1, size);
    const NormAttr attr{.eps = 0.1F, .groups = groups};
    const Case c{
        op::kLayerNorm, {x.operand, w.operand, bias.operand}, Matrix(4, 15), attr, plain_shape(4)};
    const RunWith two{.workers = 2};
    run(op::kLayerNormBackX, {dy.operand, x.operand, w.operand}, dx.operand, attr, c.shape, two);
    run(op::kLayerNormBackW, {dy.operand, x.operand, w.operand}, dw.operand, attr, c.shape, two);
    run(op::kBiasBack, {dy.operand, bias.operand}, db.operand, {}, c.shape, two);
    expect_gradient(c, dy, 0, dx);
    expect_gradient(c, dy, 1, dw);
    expect_gradient(c, dy, 2, db);
  }
}

TEST(GradientKernels, OfAttendWithGroupsWindowAndSoftcap) {
  for (const AttendAttr base : {AttendAttr{.heads = 4, .kv_heads = 2, .scale = 0.6F},
                                AttendAttr{.heads = 3, .kv_heads = 1, .scale = 0.6F, .window = 3},
                                AttendAttr{.heads = 2, .kv_heads = 2, .scale = 0.6F, .softcap = 2},
                                AttendAttr{.heads = 3, .kv_heads = 1, .scale = 0.6F, .alibi = 3}}) {
    Random random(4);
    Batch batch(2, 16);
    batch.add(0, 0, 6);
    batch.add(1, 0, 3);
    const int n = 5;
    const Matrix q = random_matrix(9, base.heads * n, random);
    const Matrix k = random_matrix(9, base.kv_heads * n, random);
    const Matrix v = random_matrix(9, base.kv_heads * n, random);
    const Matrix dy = random_matrix(9, base.heads * n, random);
    const Case c{op::kAttend,
                 {q.operand, k.operand, v.operand},
                 Matrix(9, base.heads * n),
                 base,
                 batch.shape()};
    Matrix dq(9, base.heads * n), dk(9, base.kv_heads * n), dv(9, base.kv_heads * n);
    Matrix y(9, base.heads * n), log_sum(9, base.heads);
    run_all(op::kAttend, c.in, {y.operand, log_sum.operand}, base, c.shape);
    run_all(op::kAttendBack,
            {dy.operand, q.operand, k.operand, v.operand, y.operand, log_sum.operand},
            {dq.operand, dk.operand, dv.operand}, base, c.shape, {.workers = 3});
    expect_gradient(c, dy, 0, dq);
    expect_gradient(c, dy, 1, dk);
    expect_gradient(c, dy, 2, dv);
  }
}

TEST(GradientKernels, OfRopeIsTheOppositeRotation) {
  Random random(5);
  const Matrix positions = indices({0, 7, 1000});
  Matrix angles(3, 6);
  run(op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = 6}, plain_shape(3));
  for (bool interleaved : {false, true}) {
    const Matrix x = random_matrix(3, 20, random);
    const Matrix dy = random_matrix(3, 20, random);
    Matrix dx(3, 20);
    RopeAttr attr{.heads = 2, .dims = 6, .interleaved = interleaved};
    const Case c{op::kRope, {x.operand, angles.operand}, Matrix(3, 20), attr, plain_shape(3)};
    attr.sign = -1;
    run(op::kRope, {dy.operand, angles.operand}, dx.operand, attr, c.shape);
    expect_gradient(c, dy, 0, dx);
  }
}

TEST(GradientKernels, OfEmbedAndSelectRowsAddUp) {
  Random random(6);
  const Matrix tokens = indices({2, 0, 2, 4});
  const Matrix table = random_matrix(5, 7, random);
  const Matrix dy = random_matrix(4, 7, random);
  Matrix grad(5, 7);
  const Case c{
      op::kEmbed, {tokens.operand, table.operand}, Matrix(4, 7), ScaleAttr{1.5F}, plain_shape(4)};
  run(op::kEmbedBack, {dy.operand, tokens.operand, table.operand}, grad.operand, ScaleAttr{1.5F},
      c.shape, {.workers = 2});
  expect_gradient(c, dy, 1, grad);

  RunShape shape = plain_shape(5);
  shape.outputs = 3;
  const Matrix picked = indices({0, 3, 4});
  const Matrix d_picked = random_matrix(3, 7, random);
  const Case select{op::kSelectRows, {table.operand, picked.operand}, Matrix(3, 7), {}, shape};
  run(op::kSelectRowsBack, {d_picked.operand, picked.operand}, grad.operand, {}, shape,
      {.workers = 2});
  expect_gradient(select, d_picked, 0, grad);
}

TEST(GradientKernels, OfCrossEntropyLeavesOutMinusOne) {
  Random random(7);
  const Matrix logits = random_matrix(4, 11, random, 2);
  const Matrix targets = indices({3, -1, 10, 0});
  Matrix dy(1, 1);
  dy[0][0] = 1.7F;
  Matrix grad(4, 11);
  const Case c{
      op::kCrossEntropy, {logits.operand, targets.operand}, Matrix(1, 1), {}, plain_shape(4)};
  run(op::kCrossEntropyBack, {dy.operand, logits.operand, targets.operand}, grad.operand, {},
      c.shape, {.workers = 2});
  expect_gradient(c, dy, 0, grad);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(grad[1][i], 0);
}

}  // namespace
}  // namespace veery::test

#include "kernels/common/rope_angles.h"
#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

// Properties that hold by definition, and results computed by hand.

TEST(Reference, RotationForthAndBackIsTheIdentity) {
  Random random(1);
  const Matrix positions = indices({0, 1, 513, 131071});
  Matrix angles(4, 8);
  run(op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = 8}, plain_shape(4));
  for (bool interleaved : {false, true}) {
    const Matrix x = random_matrix(4, 30, random);
    Matrix turned(4, 30);
    Matrix back(4, 30);
    RopeAttr attr{.heads = 3, .dims = 8, .interleaved = interleaved};
    run(op::kRope, {x.operand, angles.operand}, turned.operand, attr, plain_shape(4),
        {.workers = 2});
    attr.sign = -1;
    run(op::kRope, {turned.operand, angles.operand}, back.operand, attr, plain_shape(4));
    expect_near(back, x, 1e-6);
    EXPECT_EQ(turned[3][8], x[3][8]);
    EXPECT_EQ(turned[0][0], x[0][0]);
    EXPECT_NE(turned[1][interleaved ? 1 : 4], x[1][interleaved ? 1 : 4]);
  }
}

TEST(Reference, RopePairsAreWhereTheAttributeSays) {
  Matrix angles(1, 4);
  angles[0][0] = 0, angles[0][1] = 1, angles[0][2] = 1, angles[0][3] = 0;  // 90 and 0 degrees
  Matrix x(1, 4);
  for (int i = 0; i < 4; ++i) x[0][i] = static_cast<float>(i + 1);
  Matrix y(1, 4);
  run(op::kRope, {x.operand, angles.operand}, y.operand, RopeAttr{.dims = 4, .interleaved = true},
      plain_shape(1));
  EXPECT_EQ(std::vector<float>(y[0], y[0] + 4), (std::vector<float>{-2, 1, 3, 4}));
  run(op::kRope, {x.operand, angles.operand}, y.operand, RopeAttr{.dims = 4}, plain_shape(1));
  EXPECT_EQ(std::vector<float>(y[0], y[0] + 4), (std::vector<float>{-3, 2, 1, 4}));
}

TEST(Reference, FrequencyScalings) {
  AnglesAttr attr{.dims = 64, .theta = 500000, .scaling = RopeScaling::kLlama3, .factor = 32};
  const RopeFrequencies llama3(attr);
  EXPECT_DOUBLE_EQ(llama3(0), 1);                                       // a short wave is kept
  EXPECT_NEAR(llama3(31), std::pow(500000.0, -62.0 / 64) / 32, 1e-18);  // a long one is stretched
  // Wavelength 2 pi / 0.00213: 8192 positions are 2.778 turns, so (2.778 - 1) / 3 of it is kept.
  const double plain = std::pow(500000.0, -30.0 / 64);
  const double keep = (8192 * plain / (2 * 3.14159265358979) - 1) / 3;
  EXPECT_NEAR(llama3(15), plain * (keep + (1 - keep) / 32), 1e-12);
  attr = {.dims = 64,
          .scaling = RopeScaling::kYarn,
          .factor = 4,
          .attention_factor = 1.1386,
          .original_context = 4096};
  const RopeFrequencies yarn(attr);
  EXPECT_DOUBLE_EQ(yarn(0), 1);
  EXPECT_NEAR(yarn(31), std::pow(10000.0, -62.0 / 64) / 4, 1e-15);
  EXPECT_GT(yarn(16), std::pow(10000.0, -32.0 / 64) / 4);
  EXPECT_LT(yarn(16), std::pow(10000.0, -32.0 / 64));
  EXPECT_DOUBLE_EQ(yarn.magnitude(9000), 1.1386);
  attr.truncate = false;
  EXPECT_NE(RopeFrequencies(attr)(16), yarn(16));
  attr.temperature = 0.1;  // positions in the third 4096: 1 + 0.1 ln 3
  EXPECT_DOUBLE_EQ(RopeFrequencies(attr).magnitude(4095), 1.1386);
  EXPECT_DOUBLE_EQ(RopeFrequencies(attr).magnitude(9000), 1.1386 * (1 + 0.1 * std::log(3.0)));
  attr.scaling = RopeScaling::kLinear;
  EXPECT_DOUBLE_EQ(RopeFrequencies(attr)(0), 0.25);
}

TEST(Reference, RopeDivisorsStretchTheirPairs) {
  // With a divisor of 4, a pair has at position 40 the angle that it had at position 10.
  const Matrix far = indices({40});
  const Matrix near = indices({10});
  Matrix divisors(1, 3), divided(1, 6), plain_far(1, 6), plain_near(1, 6);
  divisors[0][0] = 4, divisors[0][1] = 1, divisors[0][2] = 4;
  const AnglesAttr attr{.dims = 6};
  for (Target target : supported_targets()) {
    const RunWith with{.target = target};
    run(op::kRopeAngles, {far.operand, divisors.operand}, divided.operand, attr, plain_shape(1),
        with);
    run(op::kRopeAngles, {far.operand}, plain_far.operand, attr, plain_shape(1), with);
    run(op::kRopeAngles, {near.operand}, plain_near.operand, attr, plain_shape(1), with);
    for (int c = 0; c < 6; ++c)
      EXPECT_FLOAT_EQ(divided[0][c], c == 2 || c == 3 ? plain_far[0][c] : plain_near[0][c]);
  }
}

struct AttendCase {
  AttendAttr attr;
  int head_dim;
  DType type;
};

TEST(Reference, AttendOverPagesIsAttendOverRows) {
  for (const AttendCase& c :
       {AttendCase{{.heads = 6, .kv_heads = 2, .scale = 0.3F}, 12, DType::kF32},
        AttendCase{{.heads = 2, .kv_heads = 1, .scale = 0.3F, .window = 40}, 20, DType::kF32},
        AttendCase{{.heads = 1, .kv_heads = 1, .scale = 1, .softcap = 3}, 4, DType::kF16}}) {
    Random random(2);
    Batch batch(2, 300);
    batch.add(0, 0, 290);
    batch.add(1, 0, 21);
    const RunShape shape = batch.shape();
    const int32_t width = c.attr.kv_heads * c.head_dim;
    const Matrix q = random_matrix(shape.rows, c.attr.heads * c.head_dim, random);
    const Matrix k = random_matrix(shape.rows, width, random);
    const Matrix v = random_matrix(shape.rows, width, random);
    const Cache keys(batch, true, c.type, c.attr.kv_heads, c.head_dim);
    const Cache values(batch, false, c.type, c.attr.kv_heads, c.head_dim);
    run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, shape, {.workers = 2});
    run(op::kCacheWrite, {v.operand, values.operand}, values.operand, {}, shape, {.workers = 3});
    Matrix paged(shape.rows, c.attr.heads * c.head_dim);
    Matrix rows(shape.rows, c.attr.heads * c.head_dim);
    run(op::kAttend, {q.operand, keys.operand, values.operand}, paged.operand, c.attr, shape,
        {.workers = 2});
    run(op::kAttend, {q.operand, k.operand, v.operand}, rows.operand, c.attr, shape,
        {.workers = 3});
    expect_near(paged, rows, c.type == DType::kF16 ? 4e-3 : 1e-6);
    // The first row of a sequence sees itself alone.
    for (int i = 0; i < c.head_dim; ++i) EXPECT_FLOAT_EQ(rows[290][i], v[290][i]);
  }
}

TEST(Reference, AttendByHand) {
  // Scores 0 and ln 3 of row 1: weights 1/4 and 3/4.
  Batch batch(1, 16);
  batch.add(0, 0, 2);
  Matrix q(2, 4), k(2, 4), v(2, 4), y(2, 4);
  for (int i = 0; i < 4; ++i) {
    q[0][i] = q[1][i] = i == 0 ? 1 : 0;
    k[0][i] = 0;
    k[1][i] = i == 0 ? 2 * std::log(3.0F) : 5;
    v[0][i] = 4;
    v[1][i] = static_cast<float>(8 * i);
  }
  run(op::kAttend, {q.operand, k.operand, v.operand}, y.operand, AttendAttr{.scale = 0.5F},
      batch.shape());
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[1][i], 1 + 6 * i, 1e-5);
}

TEST(Reference, RingOfPagesForgetsWhatTheWindowDoesNotSee) {
  // 700 positions through a ring of two pages, window 200.
  Random random(3);
  Batch batch(1, 2 * kPagePositions);
  const AttendAttr attr{.heads = 2, .kv_heads = 1, .scale = 0.3F, .window = 200};
  const Cache keys(batch, true, DType::kF32, 1, 8);
  const Cache values(batch, false, DType::kF32, 1, 8);
  Batch whole(1, 16);
  whole.add(0, 0, 700);
  const Matrix q = random_matrix(700, 16, random);
  const Matrix k = random_matrix(700, 8, random);
  const Matrix v = random_matrix(700, 8, random);
  Matrix expected(700, 16), y(700, 16);
  run(op::kAttend, {q.operand, k.operand, v.operand}, expected.operand, attr, whole.shape());
  const auto rows = [](const Matrix& m, int first) {
    Operand o = m.operand;
    o.data += first * o.stride;
    o.rows = kTokenRows;
    return o;
  };
  for (int first = 0; first < 700; first += 50) {
    Batch step = batch;
    step.add(0, first, 50);
    run(op::kCacheWrite, {rows(k, first), keys.operand}, keys.operand, {}, step.shape());
    run(op::kCacheWrite, {rows(v, first), values.operand}, values.operand, {}, step.shape());
    run(op::kAttend, {rows(q, first), keys.operand, values.operand}, rows(y, first), attr,
        step.shape());
  }
  expect_near(y, expected, 1e-6);
}

TEST(Reference, QkvRopeIsItsParts) {
  Random random(4);
  Batch batch(2, 64);
  batch.add(1, 3, 5);
  batch.add(0, 17, 2);
  const RunShape shape = batch.shape();
  const QkvRopeAttr attr{.heads = 4, .kv_heads = 2, .head_dim = 12, .dims = 8, .eps = 1e-5F};
  Matrix qkv = random_matrix(7, 96, random);
  const Matrix positions = indices(batch.positions);
  Matrix angles(7, 8);
  run(op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = 8}, shape);
  const Matrix q_norm = random_matrix(1, 12, random);
  const Matrix k_norm = random_matrix(1, 12, random);
  const Cache keys(batch, true, DType::kF32, 2, 12), values(batch, false, DType::kF32, 2, 12);
  const Cache keys2(batch, true, DType::kF32, 2, 12), values2(batch, false, DType::kF32, 2, 12);
  Matrix q(7, 48), q2(7, 48), k2(7, 24), k3(7, 24);
  run(op::kQkvRope,
      {qkv.operand, angles.operand, keys.operand, values.operand, q_norm.operand, k_norm.operand},
      q.operand, attr, shape, {.workers = 2});
  const auto columns = [&](int begin, int count) {
    Operand o = qkv.operand;
    o.data += begin * 4;
    o.cols = count;
    return o;
  };
  run(op::kRmsNorm, {columns(0, 48), q_norm.operand}, q2.operand, NormAttr{1e-5F, 4}, shape);
  run(op::kRope, {q2.operand, angles.operand}, q2.operand, RopeAttr{4, 8}, shape);
  run(op::kRmsNorm, {columns(48, 24), k_norm.operand}, k2.operand, NormAttr{1e-5F, 2}, shape);
  run(op::kRope, {k2.operand, angles.operand}, k3.operand, RopeAttr{2, 8}, shape);
  run(op::kCacheWrite, {k3.operand, keys2.operand}, keys2.operand, {}, shape);
  run(op::kCacheWrite, {columns(72, 24), values2.operand}, values2.operand, {}, shape);
  expect_same_bits(q, q2);
  const size_t bytes = static_cast<size_t>(keys.operand.stride * batch.page_count);
  EXPECT_TRUE(std::equal(keys.bytes->data(), keys.bytes->data() + bytes, keys2.bytes->data()));
  EXPECT_TRUE(
      std::equal(values.bytes->data(), values.bytes->data() + bytes, values2.bytes->data()));
}

TEST(Reference, LinearWithEveryExtraByHand) {
  // x = (3, 4): rms = sqrt(12.5); the norm weight undoes it, so the linear sees (3, 4).
  Matrix x(1, 2), norm(1, 2), residual(1, 1), w0(1, 2), w1(1, 2), b0(1, 1), b1(1, 1), y(1, 1);
  x[0][0] = 3, x[0][1] = 4;
  norm[0][0] = norm[0][1] = std::sqrt(12.5F);
  residual[0][0] = 100;
  w0[0][0] = 1, w0[0][1] = 2, w1[0][0] = -1, w1[0][1] = 1;
  b0[0][0] = 0.5F, b1[0][0] = 7;
  const FusedLinearAttr attr{.weights = 2, .gate = Activation::kSilu};
  run(op::kFusedLinear,
      {x.operand,
       norm.operand,
       residual.operand,
       w0.operand,
       w1.operand,
       {},
       b0.operand,
       b1.operand},
      y.operand, attr, plain_shape(1));
  const float gate = 11.5F;
  EXPECT_NEAR(y[0][0], gate / (1 + std::exp(-gate)) * 8 + 100, 1e-3);
}

TEST(Reference, ArgmaxTakesTheLowestOfEquals) {
  Random random(5);
  const Matrix x = random_matrix(3, 9, random);
  Matrix w = random_matrix(40, 9, random);
  for (int c = 0; c < 9; ++c) w[31][c] = w[7][c] = w[20][c] = 9 * x[1][c];  // the largest for row 1
  Matrix logits(3, 40);
  run(op::kFusedLinear, {x.operand, {}, {}, w.operand}, logits.operand, FusedLinearAttr{},
      plain_shape(3));
  for (int workers : {1, 2, 3, 64}) {
    Matrix apart(3, 1, DType::kI32), fused(3, 1, DType::kI32);
    run(op::kArgmax, {logits.operand}, apart.operand, {}, plain_shape(3), {.workers = workers});
    run(op::kLinearArgmax, {x.operand, {}, {}, w.operand}, fused.operand, FusedLinearAttr{},
        plain_shape(3), {.workers = workers});
    EXPECT_EQ(*apart.operand.row<int32_t>(1), 7);
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(*apart.operand.row<int32_t>(r), *fused.operand.row<int32_t>(r));
  }
}

TEST(Reference, CrossEntropyOfEqualLogitsIsLogOfTheirNumber) {
  Matrix logits(2, 50);
  for (int r = 0; r < 2; ++r) std::fill_n(logits[r], 50, 1e4F);
  const Matrix targets = indices({49, -1});
  Matrix loss(1, 1);
  run(op::kCrossEntropy, {logits.operand, targets.operand}, loss.operand, {}, plain_shape(2),
      {.workers = 2});
  EXPECT_NEAR(loss[0][0], std::log(50.0), 1e-6);
}

TEST(Choose, NamesTheOpWithoutAKernel) {
  Dispatch d;
  d.in[0] = Matrix(2, 3, DType::kI32).operand;
  d.out() = d.in[0];
  try {
    choose_kernel(op::kActivate, d, {});
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("activate: no kernel for i32 2 x 3"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(supported_targets().back(), Target::kReference);
}

}  // namespace
}  // namespace veery::test

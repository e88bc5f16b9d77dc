#include <limits>

#include "kernels/kernel_runner.h"
#include "kernels/reference/cache_element.h"

namespace veery::test {
namespace {

std::vector<Target> fast_targets() {
  std::vector<Target> targets = supported_targets();
  targets.pop_back();
  return targets;
}

TEST(RopeAngles, ExtendedSequencesHaveTheirOwnDivisors) {
  const Matrix positions = indices({3, 3, 700, 700});
  Matrix divisors(1, 5), others(1, 5);
  for (int i = 0; i < 5; ++i) {
    divisors[0][i] = 1 + 0.1F * static_cast<float>(i);
    others[0][i] = 2 + static_cast<float>(i);
  }
  const Matrix second = indices({0, 1, 0, 1}), never = indices({0, 0, 0, 0});
  const RunShape shape = plain_shape(4);
  const AnglesAttr attr{.dims = 10, .attention_factor = 1.3};
  for (Target target : supported_targets()) {
    const auto angles = [&](const std::vector<Operand>& in) {
      Matrix y(4, 10);
      run(op::kRopeAngles, in, y.operand, attr, shape, {.target = target, .workers = 3});
      return y;
    };
    const Matrix usual = angles({positions.operand, divisors.operand});
    const Matrix all = angles({positions.operand, others.operand});
    const Matrix both =
        angles({positions.operand, divisors.operand, others.operand, second.operand});
    const Matrix none =
        angles({positions.operand, divisors.operand, others.operand, never.operand});
    expect_same_bits(none, usual);
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 10; ++c) EXPECT_EQ(both[r][c], (r % 2 == 1 ? all : usual)[r][c]);
  }
}

TEST(RopeAngles, FastIsTheReferenceAtEveryPosition) {
  const Matrix positions = indices({0, 1, 2, 100, 511, 512, 4095, 32768, 131071, 1048575});
  for (const AnglesAttr& attr :
       {AnglesAttr{.dims = 64}, AnglesAttr{.dims = 6, .theta = 1e6},
        AnglesAttr{.dims = 128, .theta = 5e5, .scaling = RopeScaling::kLlama3, .factor = 32},
        AnglesAttr{.dims = 64, .scaling = RopeScaling::kYarn, .factor = 8, .attention_factor = 1.2},
        AnglesAttr{.dims = 64, .scaling = RopeScaling::kLinear, .factor = 4}}) {
    Matrix expected(10, attr.dims);
    run(op::kRopeAngles, {positions.operand}, expected.operand, attr, plain_shape(10));
    Matrix first(10, attr.dims);
    run(op::kRopeAngles, {positions.operand}, first.operand, attr, plain_shape(10),
        {.target = fast_targets()[0]});
    expect_near(first, expected, 1e-7);
    for (Target target : fast_targets()) {
      Matrix y(10, attr.dims);
      run(op::kRopeAngles, {positions.operand}, y.operand, attr, plain_shape(10),
          {.target = target, .workers = 3});
      expect_same_bits(y, first, name(target).data());
    }
  }
}

TEST(PositionScale, ScalesByTheLogarithmOfPassedPeriods) {
  Random random(4);
  const Matrix positions = indices({0, 6, 7, 14, 15, 8191, 1000000});
  const PositionScaleAttr attr{.weight = 0.1, .period = 8, .shift = 1};
  const Matrix x = random_matrix(7, 37, random);
  for (Target target : supported_targets()) {
    Matrix y(7, 37);
    run(op::kPositionScale, {x.operand, positions.operand}, y.operand, attr, plain_shape(7),
        {.target = target, .workers = 3});
    for (int r = 0; r < 7; ++r) {
      const int passed = (*positions.operand.row<int32_t>(r) + 1) / 8;
      const auto factor = static_cast<float>(1 + 0.1 * std::log(1.0 + passed));
      for (int c = 0; c < 37; ++c) EXPECT_EQ(y[r][c], x[r][c] * factor) << r << " " << c;
    }
    EXPECT_EQ(y[1][5], x[1][5]);  // within the first period
  }
}

// A rotation by angle 0 multiplies by the temperature alone.
TEST(PositionScale, IsTheTemperatureOfRope) {
  Random random(8);
  const Matrix positions = indices({3, 4095, 4096, 70000});
  const Matrix x = random_matrix(4, 24, random);
  for (Target target : supported_targets()) {
    Matrix angles(4, 8), turned(4, 24), y(4, 24);
    run(op::kRopeAngles, {positions.operand}, angles.operand,
        AnglesAttr{.dims = 8,
                   .scaling = RopeScaling::kLinear,
                   .factor = std::numeric_limits<double>::infinity(),
                   .original_context = 4096,
                   .temperature = 0.1},
        plain_shape(4), {.target = target});
    run(op::kRope, {x.operand, angles.operand}, turned.operand, RopeAttr{.heads = 3, .dims = 8},
        plain_shape(4), {.target = target});
    run(op::kPositionScale, {x.operand, positions.operand}, y.operand,
        PositionScaleAttr{.weight = 0.1, .period = 4096}, plain_shape(4), {.target = target});
    expect_same_bits(y, turned, name(target).data());
  }
}

TEST(Rope, FastIsTheReference) {
  Random random(2);
  const Matrix positions = indices({0, 3, 77, 1000, 1001});
  for (bool interleaved : {false, true}) {
    for (int dims : {2, 12, 32, 64, 80}) {
      for (float sign : {1.0F, -1.0F}) {
        const int begin = dims % 32 == 12 ? 3 : 0;
        const RopeAttr attr{3, dims, interleaved, sign, begin};
        const int32_t cols = 3 * (dims + (dims % 32 == 0 ? 0 : 4));
        const Matrix x = random_matrix(5, cols, random);
        Matrix angles(5, dims);
        run(op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = dims},
            plain_shape(5));
        Matrix expected(5, cols);
        run(op::kRope, {x.operand, angles.operand}, expected.operand, attr, plain_shape(5));
        for (Target target : fast_targets()) {
          Matrix y(5, cols);
          run(op::kRope, {x.operand, angles.operand}, y.operand, attr, plain_shape(5),
              {.target = target, .workers = 2});
          expect_same_bits(y, expected);
          for (int r = 0; r < 5; ++r) std::copy_n(x[r], cols, y[r]);
          run(op::kRope, {y.operand, angles.operand}, y.operand, attr, plain_shape(5),
              {.target = target});
          expect_same_bits(y, expected, "in place");
        }
      }
    }
  }
}

TEST(Rope, RotatesOnlyTheGivenDimensions) {
  Random random(6);
  const Matrix positions = indices({5, 9});
  Matrix angles(2, 4);
  run(op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = 4}, plain_shape(2));
  const Matrix x = random_matrix(2, 2 * 11, random);
  for (bool interleaved : {false, true}) {
    Matrix part(4, 4), turned(4, 4), angle(4, 4), whole(2, 22);
    for (int r = 0; r < 4; ++r) {
      std::copy_n(x[r / 2] + r % 2 * 11 + 5, 4, part[r]);
      std::copy_n(angles[r / 2], 4, angle[r]);
    }
    run(op::kRope, {part.operand, angle.operand}, turned.operand, RopeAttr{1, 4, interleaved},
        plain_shape(4));
    for (Target target : supported_targets()) {
      run(op::kRope, {x.operand, angles.operand}, whole.operand,
          RopeAttr{.heads = 2, .dims = 4, .interleaved = interleaved, .begin = 5}, plain_shape(2),
          {.target = target});
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 22; ++c) {
          const bool inside = c % 11 >= 5 && c % 11 < 9;
          EXPECT_EQ(whole[r][c], inside ? turned[2 * r + c / 11][c % 11 - 5] : x[r][c]) << c;
        }
    }
  }
}

struct QkvCase {
  QkvRopeAttr attr;
  DType keys, values;
  bool norms;
};

struct QkvResult {
  Matrix q;
  Cache keys, values;
};

// Rows of two sequences, one of which has earlier positions; computed by the fused op and by its
// parts.
class QkvProblem {
 public:
  explicit QkvProblem(const QkvCase& of) : case_(of), attr_(of.attr) {
    batch_.add(0, 250, 11);
    batch_.add(1, 0, 3);
    shape_ = batch_.shape();
    Random random(3);
    qkv_ = random_matrix(shape_.rows, queries() + 2 * kv(), random);
    angles_ = Matrix(shape_.rows, attr_.dims);
    run(op::kRopeAngles, {indices(batch_.positions).operand}, angles_.operand,
        AnglesAttr{.dims = attr_.dims}, shape_);
    q_norm_ = random_matrix(1, attr_.head_dim, random);
    k_norm_ = random_matrix(1, attr_.head_dim, random);
  }

  QkvResult in_one(RunWith with) const {
    QkvResult y = empty();
    run(op::kQkvRope,
        {qkv_.operand, angles_.operand, y.keys.operand, y.values.operand,
         case_.norms ? q_norm_.operand : Operand{}, case_.norms ? k_norm_.operand : Operand{}},
        y.q.operand, attr_, shape_, with);
    return y;
  }

  QkvResult by_norm_rope_and_cache_write(RunWith with) const {
    QkvResult y = empty();
    const Matrix k(shape_.rows, kv());
    Operand q_in = columns(0, queries());
    Operand k_in = columns(queries(), kv());
    if (case_.norms) {
      run(op::kRmsNorm, {q_in, q_norm_.operand}, y.q.operand, NormAttr{attr_.eps, attr_.heads},
          shape_, with);
      run(op::kRmsNorm, {k_in, k_norm_.operand}, k.operand, NormAttr{attr_.eps, attr_.kv_heads},
          shape_, with);
      q_in = y.q.operand;
      k_in = k.operand;
    }
    run(op::kRope, {q_in, angles_.operand}, y.q.operand,
        RopeAttr{attr_.heads, attr_.dims, attr_.interleaved}, shape_, with);
    run(op::kRope, {k_in, angles_.operand}, k.operand,
        RopeAttr{attr_.kv_heads, attr_.dims, attr_.interleaved}, shape_, with);
    run(op::kCacheWrite, {k.operand, y.keys.operand}, y.keys.operand, {}, shape_, with);
    run(op::kCacheWrite, {columns(queries() + kv(), kv()), y.values.operand}, y.values.operand, {},
        shape_, with);
    return y;
  }

  // Keys may differ by one rounding: in the last bit, or by one code of q8_0.
  void expect_near_keys(const Cache& found, const Cache& expected) const {
    for (int32_t r = 0; r < shape_.rows; ++r)
      for (int64_t h = 0; h < attr_.kv_heads; ++h) {
        const CachedHead head = head_at(expected, r, h);
        for (int64_t i = 0; i < attr_.head_dim; ++i) {
          const float key = read_cached(head, i);
          const float rounding =
              case_.keys == DType::kQ8_0
                  ? 1.001F * f16_to_f32(head.tile(i).scales[shape_.position(r) % kLanes])
                  : std::abs(key) * (case_.keys == DType::kF16    ? 1e-3F
                                     : case_.keys == DType::kBF16 ? 8e-3F
                                                                  : 0.0F);
          ASSERT_NEAR(read_cached(head_at(found, r, h), i), key, 1e-5 + rounding);
        }
      }
  }

  bool same(const Cache& a, const Cache& b) const {
    const auto bytes = static_cast<size_t>(a.operand.stride * batch_.page_count);
    return std::equal(a.bytes->data(), a.bytes->data() + bytes, b.bytes->data());
  }

 private:
  int queries() const { return attr_.heads * attr_.head_dim; }
  int kv() const { return attr_.kv_heads * attr_.head_dim; }
  QkvResult empty() const {
    return {Matrix(shape_.rows, queries()),
            Cache(batch_, true, case_.keys, attr_.kv_heads, attr_.head_dim),
            Cache(batch_, false, case_.values, attr_.kv_heads, attr_.head_dim)};
  }
  Operand columns(int begin, int count) const {
    Operand o = qkv_.operand;
    o.data += begin * 4;
    o.cols = count;
    return o;
  }
  CachedHead head_at(const Cache& cache, int32_t row, int64_t head) const {
    const int64_t position = shape_.position(row);
    return {cache.operand, page_of(cache.operand, shape_, shape_.sequence(row), position), head,
            position};
  }

  QkvCase case_;
  QkvRopeAttr attr_;
  Batch batch_{2, 600};
  RunShape shape_;
  Matrix qkv_{0, 0}, angles_{0, 0}, q_norm_{0, 0}, k_norm_{0, 0};
};

TEST(QkvRope, FastIsTheReferenceAndItsOwnParts) {
  for (const QkvCase& c :
       {QkvCase{{9, 3, 64, 64, false, 0}, DType::kF32, DType::kBF16, false},
        QkvCase{{4, 1, 80, 32, true, 1e-6F}, DType::kF16, DType::kF16, true},
        QkvCase{{2, 2, 20, 20, false, 1e-6F}, DType::kBF16, DType::kF32, true},
        QkvCase{{3, 1, 36, 8, true, 0}, DType::kF16, DType::kBF16, false},
        QkvCase{{2, 1, 96, 96, false, 1e-6F}, DType::kQ8_0, DType::kQ8_0, true}}) {
    const QkvProblem problem(c);
    const QkvResult expected = problem.in_one({});
    for (Target target : fast_targets()) {
      const QkvResult y = problem.in_one({.target = target, .workers = 3});
      expect_near(y.q, expected.q, 1e-5);
      problem.expect_near_keys(y.keys, expected.keys);
      EXPECT_TRUE(problem.same(y.values, expected.values));
      const QkvResult parts =
          problem.by_norm_rope_and_cache_write({.target = target, .workers = 2});
      expect_same_bits(y.q, parts.q, "q");
      EXPECT_TRUE(problem.same(y.keys, parts.keys));
      EXPECT_TRUE(problem.same(y.values, parts.values));
    }
  }
}

// Blocks of 32 with values that are special: ties in rounding, extremes, infinities, NaNs.
Matrix special_rows() {
  Matrix x(9, 64);
  Random random(4);
  const float inf = std::numeric_limits<float>::infinity();
  const float scales[] = {0, 1e-30F, 3e-7F, 1e-3F, 1, 6e4F, 1e7F, 1e30F, 1};
  for (int r = 0; r < 9; ++r)
    for (int c = 0; c < 64; ++c) x[r][c] = scales[r] * random.normal();
  const float odd[] = {0.5F, -0.5F, 1.00390625F, 1.01171875F, 65504, 65520, -65519, 127};
  std::copy(std::begin(odd), std::end(odd), x[4]);
  x[8][3] = std::nanf("");
  x[8][40] = -inf;
  return x;
}

TEST(CacheWrite, FastIsTheReferenceOnAnyValue) {
  const Matrix x = special_rows();
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    for (const bool keys : {true, false}) {
      Batch batch(1, 300);
      batch.add(0, 250, 9);
      const Cache expected(batch, keys, type, 1, 64);
      run(op::kCacheWrite, {x.operand, expected.operand}, expected.operand, {}, batch.shape());
      for (Target target : fast_targets()) {
        const Cache y(batch, keys, type, 1, 64);
        run(op::kCacheWrite, {x.operand, y.operand}, y.operand, {}, batch.shape(),
            {.target = target, .workers = 2});
        const auto bytes = static_cast<size_t>(y.operand.stride * batch.page_count);
        EXPECT_TRUE(std::equal(y.bytes->data(), y.bytes->data() + bytes, expected.bytes->data()))
            << info(type).name << (keys ? " keys " : " values ") << name(target);
      }
    }
  }
}

TEST(CacheWrite, Q8LosesAtMostHalfAStepAndKeepsWhatIsNotFinite) {
  const Matrix x = special_rows();
  Batch batch(1, 300);
  batch.add(0, 250, 9);
  const RunShape shape = batch.shape();
  const Cache cache(batch, true, DType::kQ8_0, 1, 64);
  run(op::kCacheWrite, {x.operand, cache.operand}, cache.operand, {}, shape);
  for (const int r : {0, 3, 4, 5}) {
    const CachedHead head{cache.operand, page_of(cache.operand, shape, 0, 250 + r), 0, 250 + r};
    for (int i = 0; i < 64; ++i) {
      const float scale = f16_to_f32(head.tile(i).scales[(250 + r) % kLanes]);
      ASSERT_NEAR(read_cached(head, i), x[r][i], 0.5625 * scale) << r << ", " << i;
    }
  }
  for (const int r : {7, 8}) {  // too large for a scale in f16; NaN and infinity
    const CachedHead head{cache.operand, page_of(cache.operand, shape, 0, 250 + r), 0, 250 + r};
    EXPECT_FALSE(std::isfinite(read_cached(head, 5)));
    EXPECT_FALSE(std::isfinite(read_cached(head, 45)));
  }
}

}  // namespace
}  // namespace veery::test

#include <random>

#include "kernels/kernel_runner.h"
#include "support/sanitized.h"

namespace veery::test {
namespace {

/// Sequences with filled caches, and queries for some of their rows.
struct Scene {
  AttendAttr attr;
  int n;  ///< dimensions of a key
  int v;  ///< dimensions of a value
  Batch batch;
  Matrix q, sinks;
  bool has_sinks;
  Cache keys, values;
  std::vector<int32_t> prefixes = {};  ///< Span::visible of each sequence

  Scene(const AttendAttr& a, int head_dim, DType key_type, DType value_type,
        const std::vector<int>& lengths, const Batch& rows, int value_dim = 0,
        bool with_sinks = false)
      : attr(a),
        n(head_dim),
        v(value_dim > 0 ? value_dim : head_dim),
        batch(rows),
        q(1, 1),
        sinks(1, 1),
        has_sinks(with_sinks),
        keys(rows, true, key_type, a.kv_heads, head_dim),
        values(rows, false, value_type, a.kv_heads, value_dim > 0 ? value_dim : head_dim) {
    Random random(11);
    q = random_matrix(batch.shape().rows, a.heads * n, random, 1.5F);
    sinks = random_matrix(1, a.heads, random, 3);
    for (size_t seq = 0; seq < lengths.size(); ++seq) {
      Batch fill = batch.empty();
      fill.add(static_cast<int>(seq), 0, lengths[seq]);
      const Matrix k = random_matrix(lengths[seq], a.kv_heads * n, random);
      const Matrix value = random_matrix(lengths[seq], a.kv_heads * v, random);
      run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, fill.shape());
      run(op::kCacheWrite, {value.operand, values.operand}, values.operand, {}, fill.shape());
    }
  }

  /// Runs rows [first, first + count) of the batch as a separate run.
  void attend(Matrix& out, int first, int count, RunWith with) const {
    Batch rows = batch.empty();
    for (const Span& span : batch.spans) {
      const int begin = std::max(first, span.first_row);
      const int end = std::min(first + count, span.end_row());
      if (begin < end) rows.add(span.sequence, span.position + begin - span.first_row, end - begin);
    }
    rows.set_visible(prefixes);
    const RunShape shape = rows.shape();
    const auto part = [&](const Matrix& m) {
      Operand o = m.operand;
      o.data += first * o.stride;
      o.rows = kTokenRows;
      return o;
    };
    const Operand& v_cache = attr.shared > 0 ? keys.operand : values.operand;
    run(op::kAttend, {part(q), keys.operand, v_cache, has_sinks ? sinks.operand : Operand{}},
        part(out), attr, shape, with);
  }
  Matrix attend(RunWith with) const {
    Matrix out(q.operand.rows, attr.heads * v);
    attend(out, 0, static_cast<int>(q.operand.rows), with);
    return out;
  }
};

// All targets except the reference, and under AddressSanitizer except kPlain, which would take
// minutes.
std::vector<Target> fast_targets() {
  std::vector<Target> targets = supported_targets();
  targets.pop_back();
  if (test::kSanitized) std::erase(targets, Target::kPlain);
  return targets;
}

struct Setting {
  AttendAttr attr;
  int n;
  DType keys, values;
  int v = 0;  ///< 0: n
  bool sinks = false;
};
const Setting kSettings[] = {
    {{.heads = 9, .kv_heads = 3, .scale = 0.125F}, 64, DType::kF32, DType::kF32},
    {{.heads = 4, .kv_heads = 1, .scale = 0.0625F, .window = 100}, 256, DType::kF16, DType::kF16},
    {{.heads = 2, .kv_heads = 2, .scale = 0.2F, .softcap = 2}, 16, DType::kF32, DType::kF32},
    {{.heads = 7, .kv_heads = 1, .scale = 0.1F, .window = 1}, 80, DType::kF32, DType::kF16},
    {{.heads = 16, .kv_heads = 2, .scale = 0.1F, .window = 300, .softcap = 5},
     48,
     DType::kF16,
     DType::kBF16},
    {{.heads = 9, .kv_heads = 3, .scale = 0.125F}, 64, DType::kBF16, DType::kBF16},
    {{.heads = 7, .kv_heads = 1, .scale = 0.1F, .window = 101}, 80, DType::kBF16, DType::kBF16},
    {{.heads = 2, .kv_heads = 2, .scale = 0.2F, .window = 3}, 16, DType::kF32, DType::kBF16},
    {{.heads = 4, .kv_heads = 2, .scale = 0.2F, .window = 33, .chunked = true, .alibi = 8},
     48,
     DType::kBF16,
     DType::kBF16,
     16,
     true},
    {{.heads = 6, .kv_heads = 3, .scale = 0.125F}, 96, DType::kQ8_0, DType::kQ8_0},
    {{.heads = 5, .kv_heads = 1, .scale = 0.2F, .window = 70}, 32, DType::kQ8_0, DType::kF32},
    {{.heads = 8, .kv_heads = 2, .scale = 0.1F, .softcap = 5}, 64, DType::kBF16, DType::kQ8_0},
    {{.heads = 6, .kv_heads = 2, .scale = 0.2F, .window = 90},
     32,
     DType::kF16,
     DType::kF16,
     0,
     true},
    {{.heads = 5, .kv_heads = 1, .scale = 0.1F}, 80, DType::kF16, DType::kQ8_0, 64},
    {{.heads = 2, .kv_heads = 1, .scale = 0.1F}, 16, DType::kF32, DType::kF32, 48, true},
    {{.heads = 4, .kv_heads = 2, .scale = 0.2F, .window = 70, .chunked = true},
     32,
     DType::kF16,
     DType::kF16},
    {{.heads = 6, .kv_heads = 3, .scale = 0.2F, .alibi = 8}, 32, DType::kF16, DType::kF32},
    {{.heads = 9, .kv_heads = 1, .scale = 0.2F, .window = 200, .alibi = 4},
     16,
     DType::kF32,
     DType::kQ8_0,
     32,
     true},
    // Values are part of the keys; the value cache is not read.
    {{.heads = 5, .kv_heads = 1, .scale = 0.1F, .shared = 32}, 48, DType::kF16, DType::kF32, 32},
    {{.heads = 20, .kv_heads = 1, .scale = 0.1F, .shared = 64}, 96, DType::kQ8_0, DType::kF32, 64},
    {{.heads = 4, .kv_heads = 2, .scale = 0.1F, .window = 90, .shared = 16},
     32,
     DType::kBF16,
     DType::kF32,
     16},
    {{.heads = 3, .kv_heads = 1, .scale = 0.1F, .shared = 80}, 80, DType::kF32, DType::kF32, 80},
};

// Two prompts, one from its beginning and one continued, and single rows of other sequences.
Batch mixed_rows() {
  Batch batch(5, 1024);
  batch.add(0, 0, 150);
  batch.add(3, 990, 1);
  batch.add(1, 377, 61);
  batch.add(2, 0, 1);
  batch.add(4, 127, 1);
  batch.add(3, 991, 2);
  return batch;
}
const std::vector<int> kLengths = {150, 438, 1, 993, 128};

// Compares with the reference. Products with bf16 caches are bf16 products, unless exact ones are
// requested.
void expect_reference(const Scene& scene) {
  const bool rounds = scene.attr.shared == 0 && (scene.keys.operand.dtype == DType::kBF16 ||
                                                 scene.values.operand.dtype == DType::kBF16);
  const Matrix expected = scene.attend({});
  for (Target target : fast_targets()) {
    const char* what = name(target).data();
    expect_near(scene.attend({.target = target, .workers = 2, .exact = true}), expected, 1e-5,
                what);
    const Matrix out = scene.attend({.target = target, .workers = 2});
    expect_near(out, expected, rounds ? 1e-2 : 1e-5, what);
    if (!rounds) continue;
    double squares = 0, all = 0;
    for (int64_t r = 0; r < out.operand.rows; ++r)
      for (int32_t c = 0; c < out.operand.cols; ++c) {
        squares += std::pow(out[r][c] - expected[r][c], 2);
        all += std::pow(expected[r][c], 2);
      }
    EXPECT_LT(std::sqrt(squares / all), 3e-3) << what;
    EXPECT_GT(squares, 0) << what;
  }
}

TEST(Attend, FastIsTheReference) {
  for (const Setting& s : kSettings)
    expect_reference(Scene(s.attr, s.n, s.keys, s.values, kLengths, mixed_rows(), s.v, s.sinks));
}

struct MaskSetting {
  AttendAttr attr;
  int n;
  DType keys, values;
  bool prefixes = false;
};
const MaskSetting kMasks[] = {
    {{.heads = 3, .kv_heads = 3, .scale = 0.2F, .mask = Mask::kFull}, 32, DType::kF32, DType::kF32},
    {{.heads = 4, .kv_heads = 1, .scale = 0.2F, .alibi = 8, .mask = Mask::kFull},
     32,
     DType::kBF16,
     DType::kBF16},
    {{.heads = 4, .kv_heads = 2, .scale = 0.2F, .softcap = 3, .mask = Mask::kFull},
     64,
     DType::kQ8_0,
     DType::kF16},
    {{.heads = 3, .kv_heads = 3, .scale = 0.2F, .window = 5, .mask = Mask::kSymmetric},
     16,
     DType::kBF16,
     DType::kBF16},
    {{.heads = 9, .kv_heads = 3, .scale = 0.2F, .window = 127, .mask = Mask::kSymmetric},
     32,
     DType::kF16,
     DType::kQ8_0},
    {{.heads = 6,
      .kv_heads = 1,
      .scale = 0.2F,
      .window = 200,
      .alibi = 8,
      .mask = Mask::kSymmetric},
     32,
     DType::kBF16,
     DType::kF32},
    {{.heads = 2, .kv_heads = 2, .scale = 0.2F, .window = 300, .mask = Mask::kSymmetric},
     16,
     DType::kF32,
     DType::kBF16},
    {{.heads = 4, .kv_heads = 2, .scale = 0.2F, .mask = Mask::kPrefix},
     32,
     DType::kF32,
     DType::kF16,
     true},
    {{.heads = 5, .kv_heads = 1, .scale = 0.2F, .alibi = 8, .mask = Mask::kPrefix},
     48,
     DType::kBF16,
     DType::kBF16,
     true},
    {{.heads = 2, .kv_heads = 2, .scale = 0.2F, .mask = Mask::kPrefix},
     16,
     DType::kF32,
     DType::kF32},
};
Scene masked(const MaskSetting& s) {
  Scene scene(s.attr, s.n, s.keys, s.values, kLengths, mixed_rows());
  // Prefixes that end within a tile, are empty, have one position, exceed the run, end in a page.
  if (s.prefixes) scene.prefixes = {70, 0, 1, 2000, 100};
  return scene;
}

TEST(Attend, FastIsTheReferenceForEveryMask) {
  for (const MaskSetting& s : kMasks) expect_reference(masked(s));
}

// A span whose rows see later rows gives the same bits only as a whole.
TEST(Attend, ASpanHasOneAnswerForEveryMask) {
  for (const MaskSetting& s : kMasks) {
    const Scene scene = masked(s);
    const Matrix whole = scene.attend({.target = fast_targets()[0]});
    for (Target target : fast_targets()) {
      for (int workers : {2, 7})
        expect_same_bits(scene.attend({.target = target, .workers = workers}), whole, "workers");
      Matrix out(scene.q.operand.rows, s.attr.heads * scene.v);
      for (const Span& span : scene.batch.spans)
        scene.attend(out, span.first_row, span.rows, {.target = target, .workers = 3});
      expect_same_bits(out, whole, "spans alone");
    }
  }
}

// Values, queries and keys of 2^-145 to 2^-56, and weights down to the smallest result of exp().
TEST(Attend, Bf16FlushesSubnormalNumbers) {
  constexpr int kRows = 150, n = 32;
  std::mt19937 rng(3);
  const auto tiny = [&](int32_t cols, int bits) {
    Matrix m(kRows, cols);
    for (int64_t r = 0; r < kRows; ++r)
      for (int32_t c = 0; c < cols; ++c)
        m[r][c] = std::ldexp(rng() % 2 == 0 ? 1.3F : -1.7F, static_cast<int>(rng() % bits) - 145);
    return m;
  };
  Batch batch(1, 256);
  batch.add(0, 0, kRows);
  const Matrix q = tiny(2 * n, 200), k = tiny(n, 160), v = tiny(n, 90);
  const Cache keys(batch, true, DType::kBF16, 1, n), values(batch, false, DType::kBF16, 1, n);
  run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, batch.shape());
  run(op::kCacheWrite, {v.operand, values.operand}, values.operand, {}, batch.shape());
  const auto attend = [&](Target target) {
    Matrix out(kRows, 2 * n);
    run(op::kAttend, {q.operand, keys.operand, values.operand}, out.operand,
        AttendAttr{.heads = 2, .kv_heads = 1, .scale = 0.5F}, batch.shape(), {.target = target});
    return out;
  };
  const Matrix first = attend(fast_targets()[0]);
  EXPECT_NE(first[kRows - 1][0], 0);
  for (Target target : fast_targets()) expect_same_bits(attend(target), first, name(target).data());
}

// If all queries are zero, the scores are those of ALiBi alone.
TEST(Attend, ScoresFallWithTheDistanceByTheSlopeOfAHead) {
  const double slopes[] = {0.25, 1.0 / 16, 1.0 / 64, 1.0 / 256, 0.5, 1.0 / 8};
  Random random(5);
  Batch batch(1, 300);
  batch.add(0, 0, 260);
  const Matrix q = Matrix(260, 6 * 16), k = random_matrix(260, 16, random),
               v = random_matrix(260, 16, random);
  const AttendAttr attr{.heads = 6, .kv_heads = 1, .scale = 1, .alibi = 8};
  Matrix y(260, 6 * 16);
  run(op::kAttend, {q.operand, k.operand, v.operand}, y.operand, attr, batch.shape());
  for (int r : {0, 1, 100, 259})
    for (int h = 0; h < 6; ++h) {
      double sum = 0, weighted = 0;
      for (int p = 0; p <= r; ++p) {
        sum += std::exp(slopes[h] * (p - r));
        weighted += std::exp(slopes[h] * (p - r)) * v[p][3];
      }
      EXPECT_NEAR(y[r][h * 16 + 3], weighted / sum, 1e-6) << r << " " << h;
    }
}

// Latent attention gives the same result as a copy of the values in a cache of their own.
TEST(Attend, ValuesInKeysAreThoseBesideThem) {
  Random random(5);
  Batch batch(1, 300);
  batch.add(0, 0, 260);
  const RunShape shape = batch.shape();
  const Matrix q = random_matrix(260, 2 * 21, random), k = random_matrix(260, 21, random);
  Matrix v = k;
  v.operand.cols = 13;
  const Cache keys(batch, true, DType::kF32, 1, 21), values(batch, false, DType::kF32, 1, 13);
  run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, shape);
  run(op::kCacheWrite, {v.operand, values.operand}, values.operand, {}, shape);
  Matrix apart(260, 26), shared(260, 26), rows(260, 26);
  AttendAttr attr{.heads = 2, .kv_heads = 1, .scale = 0.3F};
  run(op::kAttend, {q.operand, keys.operand, values.operand}, apart.operand, attr, shape);
  attr.shared = 13;
  run(op::kAttend, {q.operand, keys.operand, keys.operand}, shared.operand, attr, shape);
  run(op::kAttend, {q.operand, k.operand, k.operand}, rows.operand, attr, shape);
  expect_same_bits(shared, apart);
  expect_same_bits(rows, apart);
}

TEST(Attend, FastIsTheReferenceForEveryPairOfTypes) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0};
  for (const DType keys : kTypes) {
    for (const DType values : kTypes) {
      const Scene scene({.heads = 7, .kv_heads = 1, .scale = 0.2F, .window = 333}, 32, keys, values,
                        kLengths, mixed_rows());
      expect_reference(scene);
    }
  }
}

TEST(Attend, ARowHasOneAnswerInAnyBatchChunkOrTeam) {
  for (const Setting& s : kSettings) {
    const Scene scene(s.attr, s.n, s.keys, s.values, kLengths, mixed_rows(), s.v, s.sinks);
    const int rows = scene.batch.shape().rows;
    const Matrix whole = scene.attend({.target = fast_targets()[0]});
    for (Target target : fast_targets()) {
      for (int workers : {2, 7})
        expect_same_bits(scene.attend({.target = target, .workers = workers}), whole, "workers");
      const std::vector<int> all{1, 4, 5, 33}, some{4, 33};
      for (int chunk : test::kSanitized ? some : all) {
        Matrix out(rows, s.attr.heads * scene.v);
        for (int first = 0; first < rows; first += chunk)
          scene.attend(out, first, std::min(chunk, rows - first),
                       {.target = target, .workers = 1 + chunk % 3});
        expect_same_bits(out, whole, "chunks");
      }
    }
  }
}

TEST(Attend, LongContextSegmentsGrow) {
  // After 2048 and 6144 positions segments are longer.
  Batch batch(1, 7000);
  batch.add(0, 6990, 9);
  const Scene scene({.heads = 2, .kv_heads = 1, .scale = 0.3F}, 16, DType::kF32, DType::kF32,
                    {7000}, batch);
  const Matrix expected = scene.attend({});
  for (Target target : fast_targets()) {
    const Matrix whole = scene.attend({.target = target, .workers = 2});
    expect_near(whole, expected, 1e-5);
    Matrix single(9, 32);
    for (int r = 0; r < 9; ++r) scene.attend(single, r, 1, {.target = target, .workers = 5});
    expect_same_bits(single, whole);
  }
}

TEST(Attend, HugeScoresDoNotOverflow) {
  Batch batch(1, 300);
  batch.add(0, 0, 300);
  const Scene scene({.heads = 1, .kv_heads = 1, .scale = 1e4F}, 16, DType::kF32, DType::kF32, {300},
                    batch);
  const Matrix expected = scene.attend({});
  for (Target target : fast_targets()) {
    const Matrix out = scene.attend({.target = target});
    for (int r = 0; r < 300; ++r)
      for (int c = 0; c < 16; ++c) ASSERT_NEAR(out[r][c], expected[r][c], 0.05) << r;
  }
}

}  // namespace
}  // namespace veery::test

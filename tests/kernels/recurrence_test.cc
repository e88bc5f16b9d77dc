// Linear recurrences and short convolutions: against the recurrences of the models' papers, the
// reference kernel against the vectorised ones, and one answer for any way to split a run.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "kernels/common/formulas.h"
#include "kernels/kernel_runner.h"

namespace veery {
namespace {

using test::Matrix;
using test::RunWith;

/// Blocks of some sequences, each keeping the last `kept` positions.
struct Blocks {
  Blocks(int sequences, const Shape& shape, int kept = 1)
      : pages(static_cast<size_t>(sequences * kept)) {
    std::iota(pages.rbegin(), pages.rend(), 0);
    for (int s = 0; s < sequences; ++s) tables.push_back({pages.data() + s * kept, kept});
    const auto floats = static_cast<size_t>(shape.rows().size * shape.cols());
    memory.assign(pages.size() * floats, std::numeric_limits<float>::quiet_NaN());
    operand = {.data = reinterpret_cast<std::byte*>(memory.data()),
               .stride = static_cast<int64_t>(floats * sizeof(float)),
               .rows = shape.rows().size,
               .cols = static_cast<int32_t>(shape.cols()),
               .layout = Layout::kBlocks};
  }
  std::vector<int32_t> pages;
  std::vector<PageTable> tables;
  std::vector<float> memory;
  Operand operand;
};

/// Rows of a run and the slots that say whose they are.
struct Rows {
  std::vector<Span> spans;
  std::vector<int32_t> span_of;
  void add(int32_t sequence, int32_t rows, int32_t position) {
    spans.push_back({sequence, static_cast<int32_t>(span_of.size()), rows, position});
    span_of.insert(span_of.end(), static_cast<size_t>(rows),
                   static_cast<int32_t>(spans.size()) - 1);
  }
  Slots slots(const Blocks& blocks) const {
    Slots s;
    s.rows = s.outputs = static_cast<int32_t>(span_of.size());
    s.span_count = static_cast<int32_t>(spans.size());
    s.sequences = static_cast<int32_t>(blocks.tables.size());
    s.spans = spans.data();
    s.span_of = span_of.data();
    s.tables = blocks.tables.data();
    return s;
  }
};

struct Sizes {
  int32_t heads = 6, key_heads = 2, key = 21, value = 37;
};

/// A recurrence with random inputs of such magnitudes as models have.
struct Problem {
  std::string name;
  ScanAttr attr;
  Sizes sizes;
  std::vector<Matrix> in;  ///< in the order of ScanIn; without columns: absent

  Matrix& at(int i) { return in[static_cast<size_t>(i)]; }
  const Matrix& at(int i) const { return in[static_cast<size_t>(i)]; }
};

Problem problem(const char* name, ScanAttr attr, int64_t rows, Sizes s = {}, bool bonus = false) {
  Random random(7);
  attr.heads = s.heads;
  attr.key_heads = s.key_heads;
  Problem p{name, attr, s, {}};
  const int32_t keys = s.key_heads * s.key, values = s.heads * s.value, channels = s.heads * s.key;
  const auto negative = [&](int32_t cols, float scale) {
    Matrix m = test::random_matrix(rows, cols, random, scale);
    for (int64_t r = 0; r < rows; ++r)
      for (int32_t c = 0; c < cols; ++c) m[r][c] = -std::fabs(m[r][c]);
    return m;
  };
  const Matrix none(0, 0, DType::kF32, 0);
  p.in.assign(ScanIn::kState, none);
  p.at(ScanIn::kQ) = test::random_matrix(rows, keys, random, 0.3F);
  p.at(ScanIn::kK) = test::random_matrix(rows, keys, random, 0.2F);
  p.at(ScanIn::kV) = test::random_matrix(rows, values, random);
  if (attr.decay == Decay::kHead) p.at(ScanIn::kDecay) = negative(s.heads, 0.3F);
  if (attr.decay == Decay::kChannel) p.at(ScanIn::kDecay) = negative(channels, 0.3F);
  if (attr.decay == Decay::kOuter) {
    p.at(ScanIn::kDecay) = negative(values, 0.3F);
    p.at(ScanIn::kRates) = test::random_matrix(s.key, values, random, 1);
    for (int32_t k = 0; k < s.key; ++k)
      for (int32_t c = 0; c < values; ++c)
        p.at(ScanIn::kRates)[k][c] = std::fabs(p.at(ScanIn::kRates)[k][c]);
  }
  p.at(ScanIn::kGate) = test::random_matrix(rows, s.heads, random, attr.exponential ? 3.0F : 1.0F);
  if (!attr.exponential)
    for (int64_t r = 0; r < rows; ++r)
      for (int32_t c = 0; c < s.heads; ++c)
        p.at(ScanIn::kGate)[r][c] = sigmoid(p.at(ScanIn::kGate)[r][c]);
  if (attr.low_rank == LowRank::kGeneral) {
    p.at(ScanIn::kA) = test::random_matrix(rows, channels, random, 0.2F);
    p.at(ScanIn::kB) = test::random_matrix(rows, channels, random, 0.2F);
  }
  if (bonus) p.at(ScanIn::kBonus) = test::random_matrix(1, channels, random);
  return p;
}

std::vector<Problem> problems(int64_t rows) {
  std::vector<Problem> all = {
      problem("mamba2", {}, rows),
      problem("retention", {.decay = Decay::kNone, .scale = 0.5F}, rows, {3, 3, 16, 16}),
      problem("mamba1", {.decay = Decay::kOuter}, rows, {1, 1, 5, 50}),
      problem("delta", {.low_rank = LowRank::kDelta, .scale = 0.25F}, rows),
      problem("delta_tiled", {.map = HeadMap::kTiled, .low_rank = LowRank::kDelta}, rows),
      problem("kda", {.decay = Decay::kChannel, .low_rank = LowRank::kDelta}, rows, {2, 2, 32, 16}),
      problem("rwkv7", {.decay = Decay::kChannel, .low_rank = LowRank::kGeneral}, rows,
              {3, 3, 19, 19}, true),
      problem("rwkv6", {.decay = Decay::kChannel, .read_before = true}, rows, {2, 2, 7, 20}, true),
      problem("mlstm", {.exponential = true, .normaliser = true, .scale = 0.2F, .eps = 1e-6F}, rows,
              {2, 2, 18, 40})};
  return all;
}

/// The rows [first, first + count) of a matrix; of one that is for all rows all of it.
Operand part(const Matrix& m, int64_t first, int64_t rows) {
  Operand o = m.operand;
  if (o.rows == rows) o.data += first * o.stride;
  return o;
}

/// Runs the rows of a problem, which are one sequence after the other, in runs of spans.
struct ProblemRun {
  const Problem& p;
  RunWith with;
  bool state = true;
  int kept = 1;

  Matrix out() const {
    return Matrix(p.at(ScanIn::kV).operand.rows, p.at(ScanIn::kV).operand.cols);
  }
  void go(const Rows& rows, int64_t first, Blocks& blocks, Matrix& result) const {
    const int64_t all = result.operand.rows;
    std::vector<Operand> in(ScanIn::kState + 1);
    for (size_t i = 0; i < p.in.size(); ++i)
      if (p.in[i].operand.cols > 0) in[i] = part(p.in[i], first, all);
    if (state) in[ScanIn::kState] = blocks.operand;
    Operand target = result.operand;
    target.data += first * target.stride;
    test::run(op::kScan, in, target, p.attr, rows.slots(blocks), with);
  }
};

Blocks blocks_of(const Problem& p, int sequences, int kept = 1) {
  return Blocks(sequences, scan_state(p.attr, p.sizes.key, p.sizes.value), kept);
}

/// All rows as one sequence, in runs of these sizes.
Matrix in_runs(const Problem& p, const std::vector<int32_t>& sizes, RunWith with, int kept = 1) {
  const ProblemRun run{p, with, true, kept};
  Matrix result = run.out();
  Blocks blocks = blocks_of(p, 1, kept);
  int32_t position = 0;
  for (const int32_t size : sizes) {
    Rows rows;
    rows.add(0, size, position);
    run.go(rows, position, blocks, result);
    position += size;
  }
  return result;
}

constexpr int32_t kRows = 45;

using Doubles = std::vector<double>;

/// A recurrence of its own for each model, in double precision; S [key][value] of head h.
struct Oracle {
  const Problem& p;
  int64_t h;
  Doubles s;
  double m = 0;
  Doubles n;

  double in(int input, int64_t row, int64_t column) const {
    const Operand& o = p.at(input).operand;
    return o.row<float>(o.rows == 1 ? 0 : row)[column];
  }
  int64_t key_head() const { return p.attr.key_head(static_cast<int32_t>(h)); }
  double q(int64_t t, int64_t i) const { return in(ScanIn::kQ, t, key_head() * p.sizes.key + i); }
  double k(int64_t t, int64_t i) const { return in(ScanIn::kK, t, key_head() * p.sizes.key + i); }
  double v(int64_t t, int64_t c) const { return in(ScanIn::kV, t, h * p.sizes.value + c); }
  double& at(int64_t i, int64_t c) { return s[static_cast<size_t>(i * p.sizes.value + c)]; }
};

// Gated DeltaNet: S = alpha S, then S += beta k (v - S^T k)^T (Yang et al., equation 10, turned).
void delta_step(Oracle& o, int64_t t, Doubles& y) {
  const double beta = o.in(ScanIn::kGate, t, o.h);
  for (int64_t c = 0; c < o.p.sizes.value; ++c) {
    double seen = 0;
    for (int64_t i = 0; i < o.p.sizes.key; ++i) {
      const bool channel = o.p.attr.decay == Decay::kChannel;
      o.at(i, c) *= std::exp(o.in(ScanIn::kDecay, t, channel ? o.h * o.p.sizes.key + i : o.h));
      seen += o.k(t, i) * o.at(i, c);
    }
    for (int64_t i = 0; i < o.p.sizes.key; ++i) {
      o.at(i, c) += beta * o.k(t, i) * (o.v(t, c) - seen);
      y[static_cast<size_t>(c)] += o.p.attr.scale * o.q(t, i) * o.at(i, c);
    }
  }
}

// Mamba-2: h = exp(dt A) h + dt B x, y = C h (Dao and Gu, equation 1).
void mamba2_step(Oracle& o, int64_t t, Doubles& y) {
  const double dt = o.in(ScanIn::kGate, t, o.h);
  for (int64_t c = 0; c < o.p.sizes.value; ++c)
    for (int64_t i = 0; i < o.p.sizes.key; ++i) {
      o.at(i, c) = std::exp(o.in(ScanIn::kDecay, t, o.h)) * o.at(i, c) + dt * o.k(t, i) * o.v(t, c);
      y[static_cast<size_t>(c)] += o.q(t, i) * o.at(i, c);
    }
}

// mLSTM with its stabiliser (Beck et al., equations 19 to 27).
void mlstm_step(Oracle& o, int64_t t, Doubles& y) {
  const double f = o.in(ScanIn::kDecay, t, o.h), i = o.in(ScanIn::kGate, t, o.h);
  const double before = o.m;
  o.m = std::max(f + before, i);
  const double forget = std::exp(f + before - o.m), gate = std::exp(i - o.m);
  double divisor = 0;
  for (int64_t j = 0; j < o.p.sizes.key; ++j) {
    double& n = o.n[static_cast<size_t>(j)];
    n = forget * n + gate * o.k(t, j);
    divisor += o.p.attr.scale * o.q(t, j) * n;
  }
  divisor = std::max(std::fabs(divisor), std::exp(-o.m)) + o.p.attr.eps;
  for (int64_t c = 0; c < o.p.sizes.value; ++c)
    for (int64_t j = 0; j < o.p.sizes.key; ++j) {
      o.at(j, c) = forget * o.at(j, c) + gate * o.k(t, j) * o.v(t, c);
      y[static_cast<size_t>(c)] += o.p.attr.scale * o.q(t, j) * o.at(j, c) / divisor;
    }
}

// RWKV-7: S = S (diag(w) + a^T b) + v^T k, and the bonus (Peng et al., equations 16 and 20,
// turned).
void rwkv7_step(Oracle& o, int64_t t, Doubles& y) {
  const int64_t keys = o.p.sizes.key, first = o.h * keys;
  double bonus = 0;
  for (int64_t i = 0; i < keys; ++i)
    bonus += o.q(t, i) * o.in(ScanIn::kBonus, 0, first + i) * o.k(t, i);
  const double gate = o.in(ScanIn::kGate, t, o.h);
  for (int64_t c = 0; c < o.p.sizes.value; ++c) {
    double removed = 0;
    for (int64_t i = 0; i < keys; ++i) removed += o.in(ScanIn::kA, t, first + i) * o.at(i, c);
    for (int64_t i = 0; i < keys; ++i) {
      o.at(i, c) = std::exp(o.in(ScanIn::kDecay, t, first + i)) * o.at(i, c) +
                   o.in(ScanIn::kB, t, first + i) * removed + gate * o.k(t, i) * o.v(t, c);
      y[static_cast<size_t>(c)] += o.q(t, i) * o.at(i, c);
    }
    y[static_cast<size_t>(c)] += gate * bonus * o.v(t, c);
  }
}

using StepFn = void (*)(Oracle&, int64_t, Doubles&);

void expect_follows(const Problem& p, StepFn step) {
  const Matrix result = in_runs(p, {kRows}, {});
  for (int64_t h = 0; h < p.attr.heads; ++h) {
    Oracle oracle{p, h, Doubles(static_cast<size_t>(p.sizes.key * p.sizes.value)), 0,
                  Doubles(static_cast<size_t>(p.sizes.key))};
    for (int64_t t = 0; t < kRows; ++t) {
      Doubles y(static_cast<size_t>(p.sizes.value));
      step(oracle, t, y);
      for (int64_t c = 0; c < p.sizes.value; ++c)
        ASSERT_NEAR(result[t][h * p.sizes.value + c], y[static_cast<size_t>(c)], 1e-4)
            << p.name << " head " << h << " row " << t;
    }
  }
}

TEST(Scan, ReferenceIsTheRecurrenceOfEachModel) {
  for (const Problem& p : problems(kRows)) {
    if (p.name.starts_with("delta") || p.name == "kda") expect_follows(p, delta_step);
    if (p.name == "mamba2") expect_follows(p, mamba2_step);
    if (p.name == "mlstm") expect_follows(p, mlstm_step);
    if (p.name == "rwkv7") expect_follows(p, rwkv7_step);
  }
}

TEST(Scan, FastIsTheReferenceAndTheSameOnAllTargets) {
  for (const Problem& p : problems(kRows)) {
    const Matrix expected = in_runs(p, {kRows}, {});
    const Matrix plain = in_runs(p, {kRows}, {Target::kPlain});
    test::expect_near(plain, expected, 2e-5, p.name.c_str());
    for (const Target target : supported_targets())
      if (target != Target::kReference)
        test::expect_same_bits(in_runs(p, {kRows}, {target, 3}), plain, p.name.c_str());
  }
}

TEST(Scan, RunsOfAnySizeGiveTheSameBits) {
  for (const Problem& p : problems(kRows))
    for (const Target target : {Target::kReference, supported_targets().front()}) {
      const Matrix whole = in_runs(p, {kRows}, {target});
      test::expect_same_bits(in_runs(p, {1, 1, 7, 30, 6}, {target, 2}), whole, p.name.c_str());
      test::expect_same_bits(in_runs(p, std::vector<int32_t>(kRows, 1), {target}, 3), whole,
                             p.name.c_str());
      test::expect_same_bits(in_runs(p, {20, 2, 23}, {target, 5}, 4), whole, p.name.c_str());
    }
}

// Positions of the last run are kept: going on from the second last one is as if the last had not
// been.
TEST(Scan, TheLastBlocksAreKept) {
  for (const Problem& p : problems(kRows)) {
    const RunWith with{supported_targets().front()};
    const ProblemRun run{p, with, true, 3};
    const Matrix whole = in_runs(p, {kRows}, with);
    Matrix result = run.out();
    Blocks blocks = blocks_of(p, 1, 3);
    for (const auto& [first, count] : {std::pair{0, 20}, {18, 5}, {21, 1}, {22, kRows - 22}}) {
      Rows rows;
      rows.add(0, count, first);
      run.go(rows, first, blocks, result);
    }
    test::expect_same_bits(result, whole, p.name.c_str());
  }
}

TEST(Scan, SequencesOfARunDoNotMix) {
  for (const Problem& p : problems(kRows)) {
    const RunWith with{supported_targets().front(), 3};
    const ProblemRun run{p, with};
    // Rows 0 to 9, 10 to 34 and 35 to 44 as three sequences at once, and each alone.
    Matrix together = run.out();
    Blocks blocks = blocks_of(p, 3);
    Rows rows;
    for (const auto& [sequence, count] : {std::pair{2, 10}, {0, 25}, {1, 10}})
      rows.add(sequence, count, 0);
    run.go(rows, 0, blocks, together);
    Matrix alone = run.out();
    for (const Span& span : rows.spans) {
      Blocks own = blocks_of(p, 1);
      Rows one;
      one.add(0, span.rows, 0);
      run.go(one, span.first_row, own, alone);
    }
    test::expect_same_bits(together, alone, p.name.c_str());
    // Without a state nothing is kept, and the rows are the same.
    const ProblemRun stateless{p, with, false};
    Matrix without = stateless.out();
    stateless.go(rows, 0, blocks, without);
    test::expect_same_bits(without, together, p.name.c_str());
  }
}

// The gates of xLSTM grow without bound where they are not shifted.
TEST(Scan, ExponentialGatesDoNotOverflow) {
  Problem p = problem("mlstm", {.exponential = true, .normaliser = true, .eps = 1e-6F}, 400,
                      {2, 2, 18, 40});
  for (int64_t r = 0; r < 400; ++r)
    for (int32_t h = 0; h < 2; ++h) {
      p.at(ScanIn::kGate)[r][h] = 200.0F * std::sin(0.1F * static_cast<float>(r));
      p.at(ScanIn::kDecay)[r][h] = -1e-4F;
    }
  const Matrix y = in_runs(p, {400}, {supported_targets().front()});
  for (int64_t r = 0; r < 400; ++r)
    for (int32_t c = 0; c < y.operand.cols; ++c) ASSERT_TRUE(std::isfinite(y[r][c])) << r;
}

struct Conv {
  int32_t channels, width;
  bool bias;
  Activation activation;
};

Matrix convolve(const Conv& conv, const std::vector<int32_t>& sizes, RunWith with, int kept = 1) {
  Random random(3);
  const Matrix x = test::random_matrix(kRows, conv.channels, random);
  const Matrix weight = test::random_matrix(conv.width, conv.channels, random);
  const Matrix bias = test::random_matrix(1, conv.channels, random);
  Matrix y(kRows, conv.channels);
  Blocks blocks(1, {std::max(1, conv.width - 1), conv.channels}, kept);
  int32_t first = 0;
  for (const int32_t size : sizes) {
    Rows rows;
    rows.add(0, size, first);
    Operand out = part(y, first, kRows);
    test::run(op::kConv1d,
              {part(x, first, kRows), weight.operand, conv.bias ? bias.operand : Operand{},
               conv.width > 1 ? blocks.operand : Operand{}},
              out, Conv1dAttr{conv.activation}, rows.slots(blocks), with);
    first += size;
  }
  return y;
}

TEST(Conv1d, ReferenceIsTheFormula) {
  const Conv conv{5, 3, true, Activation::kSilu};
  Random random(3);
  const Matrix x = test::random_matrix(kRows, 5, random);
  const Matrix weight = test::random_matrix(3, 5, random);
  const Matrix bias = test::random_matrix(1, 5, random);
  const Matrix y = convolve(conv, {kRows}, {});
  for (int64_t t = 0; t < kRows; ++t)
    for (int32_t c = 0; c < 5; ++c) {
      double sum = bias[0][c];
      for (int64_t j = 0; j < 3; ++j)
        if (t - 2 + j >= 0) sum += static_cast<double>(weight[j][c]) * x[t - 2 + j][c];
      ASSERT_NEAR(y[t][c], silu(static_cast<float>(sum)), 1e-5);
    }
}

TEST(Conv1d, OneAnswerForTargetsRunsAndBlocks) {
  const Conv convs[] = {{37, 4, false, Activation::kSilu},
                        {300, 2, true, Activation::kNone},
                        {16, 1, true, Activation::kNone},
                        {19, 8, false, Activation::kNone},
                        {9, 11, true, Activation::kSilu}};
  for (const Conv& conv : convs) {
    const Matrix expected = convolve(conv, {kRows}, {});
    const Matrix plain = convolve(conv, {kRows}, {Target::kPlain});
    test::expect_near(plain, expected, 1e-5);
    for (const Target target : supported_targets()) {
      if (target == Target::kReference) continue;
      test::expect_same_bits(convolve(conv, {kRows}, {target, 3}), plain);
      test::expect_same_bits(convolve(conv, {1, 2, 1, 30, 11}, {target, 2}), plain);
      test::expect_same_bits(convolve(conv, {1, 2, 1, 30, 11}, {target}, 3), plain);
    }
    test::expect_same_bits(convolve(conv, {1, 2, 1, 30, 11}, {}, 2), expected);
  }
}

}  // namespace
}  // namespace veery

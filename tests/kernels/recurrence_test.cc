// Linear recurrences and short convolutions: the reference kernel against the recurrences of the
// papers, the vectorised kernels against the reference, and equal bits for any split into runs.
#include <gtest/gtest.h>

#include "kernels/recurrence_problem.h"

namespace veery {
namespace {

using test::Blocks;
using test::blocks_of;
using test::in_runs;
using test::Matrix;
using test::ProblemRun;
using test::problems;
using test::RunRows;
using test::RunWith;
using test::scan_with;
using test::ScanProblem;

constexpr int32_t kRows = 45;

using Doubles = std::vector<double>;

/// The recurrence of each model in double precision. S is [key][value] of one head.
struct Oracle {
  const ScanProblem& p;
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

// Gated DeltaNet: S = alpha S, then S += beta k (v - S^T k)^T (Yang et al., equation 10,
// transposed).
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
// transposed).
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

void expect_follows(const ScanProblem& p, StepFn step) {
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
  for (const ScanProblem& p : problems(kRows)) {
    if (p.name.starts_with("delta") || p.name == "kda") expect_follows(p, delta_step);
    if (p.name == "mamba2") expect_follows(p, mamba2_step);
    if (p.name == "mlstm") expect_follows(p, mlstm_step);
    if (p.name == "rwkv7") expect_follows(p, rwkv7_step);
  }
}

TEST(Scan, FastIsTheReferenceAndTheSameOnAllTargets) {
  for (const ScanProblem& p : problems(kRows)) {
    const Matrix expected = in_runs(p, {kRows}, {});
    const Matrix plain = in_runs(p, {kRows}, {Target::kPlain});
    test::expect_near(plain, expected, 2e-5, p.name.c_str());
    for (const Target target : supported_targets())
      if (target != Target::kReference)
        test::expect_same_bits(in_runs(p, {kRows}, {target, 3}), plain, p.name.c_str());
  }
}

TEST(Scan, RunsOfAnySizeGiveTheSameBits) {
  for (const ScanProblem& p : problems(kRows))
    for (const Target target : {Target::kReference, supported_targets().front()}) {
      const Matrix whole = in_runs(p, {kRows}, {target});
      test::expect_same_bits(in_runs(p, {1, 1, 7, 30, 6}, {target, 2}), whole, p.name.c_str());
      test::expect_same_bits(in_runs(p, std::vector<int32_t>(kRows, 1), {target}, 3), whole,
                             p.name.c_str());
      test::expect_same_bits(in_runs(p, {20, 2, 23}, {target, 5}, 4), whole, p.name.c_str());
    }
}

// States after the last positions of a run are stored: continuing from an earlier one is as if the
// later positions had not been processed.
TEST(Scan, TheLastBlocksAreKept) {
  for (const ScanProblem& p : problems(kRows)) {
    const RunWith with{supported_targets().front()};
    const ProblemRun run{p, scan_with(with), true, 3};
    const Matrix whole = in_runs(p, {kRows}, with);
    Matrix result = run.out();
    Blocks blocks = blocks_of(p, 1, 3);
    for (const auto& [first, count] : {std::pair{0, 20}, {18, 5}, {21, 1}, {22, kRows - 22}}) {
      RunRows rows;
      rows.add(0, count, first);
      run.go(rows, first, blocks, result);
    }
    test::expect_same_bits(result, whole, p.name.c_str());
  }
}

TEST(Scan, SequencesOfARunDoNotMix) {
  for (const ScanProblem& p : problems(kRows)) {
    const RunWith with{supported_targets().front(), 3};
    const ProblemRun run{p, scan_with(with)};
    // Rows 0 to 9, 10 to 34 and 35 to 44 as three sequences of one run, and each alone.
    Matrix together = run.out();
    Blocks blocks = blocks_of(p, 3);
    RunRows rows;
    for (const auto& [sequence, count] : {std::pair{2, 10}, {0, 25}, {1, 10}})
      rows.add(sequence, count, 0);
    run.go(rows, 0, blocks, together);
    Matrix alone = run.out();
    for (const Span& span : rows.spans) {
      Blocks own = blocks_of(p, 1);
      RunRows one;
      one.add(0, span.rows, 0);
      run.go(one, span.first_row, own, alone);
    }
    test::expect_same_bits(together, alone, p.name.c_str());
    // Without stored states the outputs are the same.
    const ProblemRun stateless{p, scan_with(with), false};
    Matrix without = stateless.out();
    stateless.go(rows, 0, blocks, without);
    test::expect_same_bits(without, together, p.name.c_str());
  }
}

// The exponential gates of xLSTM would overflow without the stabiliser.
TEST(Scan, ExponentialGatesDoNotOverflow) {
  ScanProblem p = test::problem("mlstm", {.exponential = true, .normaliser = true, .eps = 1e-6F},
                                400, {2, 2, 18, 40});
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
    RunRows rows;
    rows.add(0, size, first);
    Operand out = part(y, first, kRows);
    test::run(op::kConv1d,
              {part(x, first, kRows), weight.operand, conv.bias ? bias.operand : Operand{},
               conv.width > 1 ? blocks.operand : Operand{}},
              out, Conv1dAttr{conv.activation}, rows.shape(blocks), with);
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

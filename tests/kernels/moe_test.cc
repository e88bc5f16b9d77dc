// Mixtures of experts: routing against its definition; the fast kernel against the reference kernel
// and against itself, over types, sizes, targets, workers and other rows.
#include "kernels/cpu/moe/moe.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "kernels/common/formulas.h"
#include "kernels/kernel_runner.h"
#include "kernels/linear_oracle.h"

namespace veery {
namespace {

using test::Matrix;

struct Sizes {
  int32_t experts = 5, used = 2;
  int64_t in = 64, hidden = 96, out = 35;
};
struct Extras {
  bool biases = false, residual = false;
  bool gated = true;        ///< the experts have a gate projection
  bool gate_is_up = false;  ///< with the weights of up
};

// The weights of a mixture, packed and row-major.
class Mixture {
 public:
  Mixture(DType type, const Sizes& s, MoeAttr attr = {}, Extras extras = {})
      : type_(type), s_(s), extras_(extras), attr_(attr), random_(11) {
    attr_.experts = s.experts;
    attr_.used = s.used;
    add(s.experts * s.hidden, s.in);
    add(s.experts * s.hidden, s.in);
    add(s.experts * s.out, s.hidden);
    for (const Operand& w : packed_) {
      Matrix bias = test::random_matrix(1, static_cast<int32_t>(w.rows), random_);
      biases_.push_back(bias);
    }
  }

  Matrix rows(int64_t count) { return test::random_matrix(count, int32_t(s_.in), random_); }
  Matrix residual(int64_t count) { return test::random_matrix(count, int32_t(s_.out), random_); }
  // Returns gates; each row chooses experts at random.
  Matrix gates(int64_t count) {
    Matrix g(count, s_.experts);
    for (int64_t r = 0; r < count; ++r) {
      std::fill_n(g[r], s_.experts, 0.0F);
      for (int i = 0; i < s_.used; ++i)
        g[r][random_.next() % static_cast<uint64_t>(s_.experts)] = 0.2F + 0.1F * float(i);
    }
    return g;
  }

  Matrix run(const Matrix& x, const Matrix& gates, const Matrix& residual, test::RunWith with,
             bool packed = true, bool exact = false, int64_t plan_rows = 0) const {
    const int64_t count = x.operand.rows;
    Matrix out(count, static_cast<int32_t>(s_.out));
    Dispatch d;
    d.in[0] = x.operand;
    d.in[1] = gates.operand;
    d.in[0].rows = d.in[1].rows = kTokenRows;
    if (extras_.residual) d.in[2] = residual.operand;
    for (size_t i = extras_.gated ? 0 : 1; i < 3; ++i) {
      const size_t of = i == 0 && extras_.gate_is_up ? 1 : i;
      d.in[3 + i] = packed ? packed_[of] : plain_[of];
      if (extras_.biases) d.in[6 + i] = biases_[i].operand;
    }
    d.out() = out.operand;
    d.attr = attr_;
    plan_rows = std::max(plan_rows, count);
    const Kernel kernel = choose_kernel(op::kMoe, d, {with.target, plan_rows, exact});
    test::Bytes work(kernel.work != nullptr ? kernel.work(d, {plan_rows, 1, with.workers}) : 0);
    d.work = work.data();
    const size_t size =
        kernel.scratch != nullptr ? kernel.scratch(d, {plan_rows, 1, with.workers}) : 0;
    std::vector<test::Bytes> own(static_cast<size_t>(with.workers), test::Bytes(size));
    for (const KernelFn phase : kernel.phases)
      for (int i = 0; phase != nullptr && i < with.workers; ++i)
        phase(d, test::plain_shape(int32_t(count)),
              {i, with.workers, own[static_cast<size_t>(i)].data()});
    return out;
  }

  // Returns the outputs by the contract, from products of single rows.
  Matrix expected(const Matrix& x, const Matrix& gates, const Matrix& residual, bool exact) const {
    Matrix out(x.operand.rows, static_cast<int32_t>(s_.out));
    for (int64_t r = 0; r < x.operand.rows; ++r) {
      std::fill_n(out[r], s_.out, 0.0F);
      const std::vector<float> row(x[r], x[r] + s_.in);
      for (int32_t e = 0; e < s_.experts; ++e)
        if (gates[r][e] != 0) add_expert(e, gates[r][e], row, exact, out[r]);
      for (int64_t n = 0; n < s_.out && extras_.residual; ++n) out[r][n] += residual[r][n];
    }
    return out;
  }

 private:
  void add(int64_t rows, int64_t cols) {
    const int64_t height = rows / s_.experts;
    const auto seed = static_cast<uint32_t>(packed_.size() + 3);
    sources_.push_back(test::random_weight(type_, rows, cols, seed));
    const auto row = static_cast<int64_t>(byte_size(type_, cols));
    plain_.push_back({sources_.back().data(), row, rows, int32_t(cols), type_, Layout::kRowMajor});
    memory_.emplace_back(static_cast<size_t>(s_.experts) * packed_bytes(type_, height, cols));
    Operand w{.data = memory_.back().data(),
              .stride = int64_t(panel_bytes(type_, cols)),
              .rows = rows,
              .cols = int32_t(cols),
              .dtype = type_,
              .layout = Layout::kPanels,
              .stack = s_.experts};
    for (int32_t e = 0; e < s_.experts; ++e)
      pack_panels(type_, sources_.back().data() + e * height * row, height, cols,
                  w.of_stack(e).data, 0, (height + 15) / 16);
    packed_.push_back(w);
  }
  float product(size_t i, int64_t row, const std::vector<float>& x, bool exact) const {
    const float y = test::contract(type_, plain_[i].row<std::byte>(row), x, exact);
    return extras_.biases ? y + biases_[i][0][row] : y;
  }
  void add_expert(int64_t e, float gate, const std::vector<float>& x, bool exact,
                  float* out) const {
    std::vector<float> h;
    const float inner = attr_.gate_input ? gate : 1;
    for (int64_t j = e * s_.hidden; j < (e + 1) * s_.hidden; ++j) {
      const float u = inner * product(1, j, x, exact);
      h.push_back(extras_.gated ? gated(attr_, inner * product(0, j, x, exact), u)
                                : activated(u, attr_.activation));
    }
    for (int64_t n = 0; n < s_.out; ++n)
      out[n] += (attr_.gate_input ? 1 : gate) * product(2, e * s_.out + n, h, exact);
  }

  DType type_;
  Sizes s_;
  Extras extras_;
  MoeAttr attr_;
  Random random_;
  std::vector<test::Bytes> sources_;
  std::vector<test::Bytes> memory_;
  std::vector<Operand> packed_, plain_;
  std::vector<Matrix> biases_;
};

double largest(const Matrix& m) {
  double most = 0;
  for (int64_t r = 0; r < m.operand.rows; ++r)
    for (int32_t c = 0; c < m.operand.cols; ++c) most = std::max<double>(most, std::abs(m[r][c]));
  return most;
}

void expect_close(const Matrix& want, const Matrix& got, double tolerance, const char* what) {
  const double bound = tolerance * largest(want);
  for (int64_t r = 0; r < want.operand.rows; ++r)
    for (int32_t c = 0; c < want.operand.cols; ++c)
      ASSERT_NEAR(want[r][c], got[r][c], bound) << what << " at " << r << ", " << c;
}

Sizes sizes_for(DType type) {
  const int64_t block = info(type).block;
  return block >= 128  ? Sizes{4, 2, 256, 256, 19}
         : block == 64 ? Sizes{5, 2, 64, 128, 35}
                       : Sizes{5, 2, 64, 96, 35};
}

class MoeOfType : public ::testing::TestWithParam<DType> {};

TEST_P(MoeOfType, IsTheSumOfTheContractsProducts) {
  Mixture m(GetParam(), sizes_for(GetParam()), {}, {.biases = true, .residual = true});
  for (const int64_t rows : {1, 3, 9}) {
    const Matrix x = m.rows(rows), gates = m.gates(rows), residual = m.residual(rows);
    for (const bool exact : {false, true})
      expect_close(m.expected(x, gates, residual, exact),
                   m.run(x, gates, residual, {Target::kReference, 2}, true, exact),
                   exact ? 1e-5 : 3e-3, exact ? "exact" : "");
  }
}

TEST_P(MoeOfType, BitsDependOnNeitherTargetNorWorkersNorOtherRows) {
  Mixture m(GetParam(), sizes_for(GetParam()));
  constexpr int kRows = 52;
  const Matrix x = m.rows(kRows), gates = m.gates(kRows), none = m.residual(1);
  for (const bool exact : {false, true}) {
    const Matrix all = m.run(x, gates, none, {Target::kReference, 1}, true, exact);
    int workers = 1;
    for (const Target target : supported_targets())
      test::expect_same_bits(all, m.run(x, gates, none, {target, workers++}, true, exact),
                             name(target).data());
    for (const int64_t count : {1, 2, 4, 7, 21}) {
      Matrix some_x = x, some_gates = gates, some = all;
      for (Matrix* part : {&some_x, &some_gates, &some}) {
        part->operand.data += 31 * part->operand.stride;
        part->operand.rows = count;
      }
      const Target best = supported_targets().front();
      test::expect_same_bits(some, m.run(some_x, some_gates, none, {best, 2}, true, exact));
      test::expect_same_bits(some, m.run(some_x, some_gates, none, {best, 2}, true, exact, 512));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MoeOfType, ::testing::ValuesIn(test::typical_types()),
                         [](const auto& at) { return std::string(veery::info(at.param).name); });

TEST(Moe, ReferenceIsTheDefinition) {
  for (const MoeAttr& attr :
       {MoeAttr{}, MoeAttr{.activation = Activation::kGelu}, MoeAttr{.gate_input = true},
        MoeAttr{.limit = 1.5F, .alpha = 1.702F}}) {
    Mixture m(DType::kF32, {3, 2, 13, 21, 9}, attr, {.biases = true, .residual = true});
    const Matrix x = m.rows(6), gates = m.gates(6), residual = m.residual(6);
    const Matrix want = m.expected(x, gates, residual, true);
    expect_close(want, m.run(x, gates, residual, {Target::kReference, 2}, false), 1e-5, "plain");
    for (const Target target : supported_targets())
      expect_close(want, m.run(x, gates, residual, {target, 2}), 1e-5, name(target).data());
  }
}

TEST(Moe, ExpertsMayHaveNoGate) {
  for (const MoeAttr& attr :
       {MoeAttr{.activation = Activation::kReluSquared}, MoeAttr{.activation = Activation::kGelu},
        MoeAttr{.activation = Activation::kSilu, .gate_input = true}}) {
    const Extras extras{.biases = true, .residual = true, .gated = false};
    Mixture plain(DType::kF32, {3, 2, 13, 21, 9}, attr, extras);
    Mixture packed(DType::kQ4_0, {5, 2, 64, 96, 35}, attr, extras);
    for (const int64_t rows : {1, 6, 40}) {
      const Matrix x = plain.rows(rows), gates = plain.gates(rows), y = plain.residual(rows);
      const Matrix want = plain.expected(x, gates, y, true);
      expect_close(want, plain.run(x, gates, y, {Target::kReference, 2}, false), 1e-5, "plain");
      const Matrix long_x = packed.rows(rows), long_gates = packed.gates(rows),
                   long_y = packed.residual(rows);
      const Matrix first = packed.run(long_x, long_gates, long_y, {supported_targets().front(), 1});
      expect_close(packed.expected(long_x, long_gates, long_y, false), first, 3e-3, "packed");
      for (const Target target : supported_targets()) {
        expect_close(want, plain.run(x, gates, y, {target, 2}), 1e-5, name(target).data());
        test::expect_same_bits(first, packed.run(long_x, long_gates, long_y, {target, 3}));
      }
    }
  }
}

// max(x, 0)^2 is max(x, 0) x, so an ungated expert equals a gated one whose gate is `up`.
TEST(Moe, UngatedReluSquaredIsReluGatedByUp) {
  const Sizes sizes{5, 2, 64, 96, 35};
  Mixture ungated(DType::kQ8_0, sizes, {.activation = Activation::kReluSquared}, {.gated = false});
  Mixture gated(DType::kQ8_0, sizes, {.activation = Activation::kRelu}, {.gate_is_up = true});
  const Matrix x = ungated.rows(9), gates = ungated.gates(9), none = ungated.residual(1);
  for (const Target target : supported_targets())
    test::expect_same_bits(gated.run(x, gates, none, {target, 2}),
                           ungated.run(x, gates, none, {target, 2}), name(target).data());
}

TEST(Moe, AllRowsMayChooseTheSameExpertsAndOthersHaveNone) {
  Mixture m(DType::kQ4_0, {7, 3, 64, 32, 17});
  const Matrix x = m.rows(150), none = m.residual(1);
  Matrix gates(150, 7);
  for (int64_t r = 0; r < 150; ++r)
    for (int e = 0; e < 7; ++e) gates[r][e] = e == 2 || e == 6 ? 0.5F : 0.0F;
  for (const Target target : supported_targets())
    expect_close(m.expected(x, gates, none, false), m.run(x, gates, none, {target, 3}), 3e-3,
                 name(target).data());
}

TEST(Moe, WithoutAnyChosenExpertTheResidualIsLeft) {
  Mixture m(DType::kQ8_0, {3, 1, 32, 32, 20}, {}, {.residual = true});
  const Matrix x = m.rows(9), residual = m.residual(9);
  Matrix gates(9, 3);
  for (int64_t r = 0; r < 9; ++r) std::fill_n(gates[r], 3, 0.0F);
  for (const int64_t plan_rows : {9, 512})
    test::expect_same_bits(residual, m.run(x, gates, residual, {supported_targets().front(), 2},
                                           true, false, plan_rows));
}

// If a row has more gates than the op allows, the excess is ignored; it must not overflow the
// lists.
TEST(Moe, GatesBeyondThoseAllowedDoNotCount) {
  Mixture m(DType::kF32, {6, 2, 8, 16, 5});
  const Matrix x = m.rows(4), none = m.residual(1);
  Matrix gates(4, 6), first(4, 6);
  for (int64_t r = 0; r < 4; ++r)
    for (int e = 0; e < 6; ++e) {
      gates[r][e] = e == 1 ? std::nanf("") : 1;
      first[r][e] = e < 2 ? gates[r][e] : 0;
      if (r != 2 && e == 1) gates[r][e] = first[r][e] = 0.5F;
    }
  for (const Target target : supported_targets()) {
    const Matrix got = m.run(x, gates, none, {target, 2});
    const Matrix want = m.run(x, first, none, {target, 2});
    for (int64_t r : {0, 1, 3})
      for (int c = 0; c < 5; ++c) EXPECT_EQ(got[r][c], want[r][c]);
  }
}

Matrix routed(const Matrix& scores, const RouteAttr& attr, const Matrix* bias = nullptr) {
  Matrix out(scores.operand.rows, scores.operand.cols);
  std::vector<Operand> in{scores.operand};
  if (bias != nullptr) in.push_back(bias->operand);
  test::run(op::kRoute, in, out.operand, attr, test::plain_shape(int32_t(scores.operand.rows)),
            {Target::kReference, 2});
  return out;
}

TEST(Route, TakesTheLargestAndAmongEqualsTheFirst) {
  Matrix scores(2, 5);
  const float rows[2][5] = {{1, 3, 3, -1, 2}, {0, 0, 0, 0, 0}};
  for (int r = 0; r < 2; ++r) std::copy_n(rows[r], 5, scores[r]);
  const Matrix sigmoids = routed(scores, {.used = 2, .sigmoid = true, .scale = 2});
  const float s = 2 * sigmoid(3.0F);
  const float want[2][5] = {{0, s, s, 0, 0}, {1, 1, 0, 0, 0}};
  const Matrix shares = routed(scores, {.used = 3, .normalise = true});
  for (int e = 0; e < 5; ++e) {
    for (int r = 0; r < 2; ++r) EXPECT_FLOAT_EQ(sigmoids[r][e], want[r][e]) << r << " " << e;
    EXPECT_FLOAT_EQ(shares[1][e], e < 3 ? 1.0F / 3 : 0);
  }
  EXPECT_NEAR(std::accumulate(shares[0], shares[0] + 5, 0.0), 1, 1e-6);
  const Matrix part = routed(scores, {.used = 2});
  EXPECT_FLOAT_EQ(part[1][0], 0.2F);
}

TEST(Route, ABiasAffectsTheChoiceButNotTheWeights) {
  Matrix scores(1, 4), bias(1, 4);
  for (int e = 0; e < 4; ++e) scores[0][e] = float(e), bias[0][e] = e == 0 ? 2.0F : 0.0F;
  const Matrix gates = routed(scores, {.used = 1, .sigmoid = true}, &bias);
  EXPECT_FLOAT_EQ(gates[0][0], 0.5F);
  for (int e = 1; e < 4; ++e) EXPECT_EQ(gates[0][e], 0);
}

TEST(Route, OnlyTheBestGroupsCount) {
  Matrix scores(1, 6);
  const float row[6] = {5, -9, 2, 1, 3, 1.5F};  // the largest is in an otherwise bad group
  std::copy_n(row, 6, scores[0]);
  RouteAttr attr{.used = 2, .sigmoid = true, .groups = 3, .groups_used = 1, .group_best = 2};
  const Matrix by_two = routed(scores, attr);
  attr.group_best = 1;
  const Matrix by_one = routed(scores, attr);
  for (int e = 0; e < 6; ++e) {
    EXPECT_EQ(by_two[0][e] != 0, e >= 4) << e;
    EXPECT_EQ(by_one[0][e] != 0, e < 2) << e;
  }
}

// Scores within 2 * jitter of the best one (relative to the larger of the two) reduce its weight.
TEST(Route, WithJitterOnlyScoresNearTheBestShareItsWeight) {
  Matrix scores(2, 5);
  const float rows[2][5] = {{1, 3, 2.5F, -4, 2.95F}, {-2, -9, -2.5F, -1, -1.01F}};
  for (int r = 0; r < 2; ++r) std::copy_n(rows[r], 5, scores[r]);
  const Matrix gates = routed(scores, {.used = 2, .jitter = 0.01F});
  const double first = 1 / (1 + std::exp(-0.05)), last = 1 / (1 + std::exp(-0.01));
  const double want[2][5] = {{0, first, 0, 0, 1}, {0, 0, 0, last, 1}};
  for (int r = 0; r < 2; ++r)
    for (int e = 0; e < 5; ++e) EXPECT_NEAR(gates[r][e], want[r][e], 1e-6) << r << " " << e;
}

TEST(Route, NansChooseAsManyExpertsAsAllowed) {
  Matrix scores(1, 5);
  std::fill_n(scores[0], 5, std::nanf(""));
  for (const float jitter : {0.0F, 0.1F}) {
    const Matrix gates = routed(scores, {.used = 2, .jitter = jitter});
    EXPECT_LE(std::count_if(gates[0], gates[0] + 5, [](float g) { return g != 0; }), 2);
  }
}

}  // namespace
}  // namespace veery

// Per-head linears against the contract of linear.h, over types, targets, workers and rows.
#include <gtest/gtest.h>

#include "kernels/kernel_runner.h"
#include "kernels/linear_oracle.h"

namespace veery {
namespace {

using test::Matrix;

struct Sizes {
  int32_t heads = 3;
  int64_t in = 64, out = 35, rest = 5;
};

// The weights of all heads, packed and row-major.
class Heads {
 public:
  Heads(DType type, const Sizes& s)
      : type_(type), s_(s), source_(test::random_weight(type, s.heads * s.out, s.in, 4)) {
    const auto row = static_cast<int64_t>(byte_size(type, s.in));
    plain_ = {source_.data(), row, s.heads * s.out, int32_t(s.in), type, Layout::kRowMajor};
    memory_ = test::Bytes(static_cast<size_t>(s.heads) * packed_bytes(type, s.out, s.in));
    packed_ = {.data = memory_.data(),
               .stride = int64_t(panel_bytes(type, s.in)),
               .rows = s.heads * s.out,
               .cols = int32_t(s.in),
               .dtype = type,
               .layout = Layout::kPanels,
               .stack = s.heads};
    for (int32_t h = 0; h < s.heads; ++h)
      pack_panels(type, source_.data() + h * s.out * row, s.out, s.in, packed_.of_stack(h).data, 0,
                  (s.out + 15) / 16);
  }

  Matrix rows(int64_t count) {
    return test::random_matrix(count, int32_t(s_.heads * (s_.in + s_.rest)), random_);
  }
  Matrix run(const Matrix& x, test::RunWith with, bool exact, bool packed = true,
             int64_t plan_rows = 0) const {
    const int64_t count = x.operand.rows;
    Matrix out(count, static_cast<int32_t>(s_.heads * (s_.out + s_.rest)));
    Dispatch d;
    d.in[0] = x.operand;
    d.in[0].rows = kTokenRows;
    d.in[1] = packed ? packed_ : plain_;
    d.out() = out.operand;
    d.attr = HeadsAttr{s_.heads};
    plan_rows = std::max(plan_rows, count);
    const Kernel kernel = choose_kernel(op::kHeadLinear, d, {with.target, plan_rows, exact});
    const size_t size = kernel.scratch(d, {plan_rows, 1, with.workers});
    std::vector<test::Bytes> own(static_cast<size_t>(with.workers), test::Bytes(size));
    for (int i = 0; i < with.workers; ++i)
      kernel.phases[0](d, test::plain_shape(int32_t(count)),
                       {i, with.workers, own[static_cast<size_t>(i)].data()});
    return out;
  }
  Matrix expected(const Matrix& x, bool exact) const {
    Matrix out(x.operand.rows, static_cast<int32_t>(s_.heads * (s_.out + s_.rest)));
    for (int64_t r = 0; r < x.operand.rows; ++r)
      for (int32_t h = 0; h < s_.heads; ++h) {
        const float* from = x[r] + h * (s_.in + s_.rest);
        float* to = out[r] + h * (s_.out + s_.rest);
        const std::vector<float> part(from, from + s_.in);
        for (int64_t n = 0; n < s_.out; ++n)
          to[n] = test::contract(type_, plain_.row<std::byte>(h * s_.out + n), part, exact);
        std::copy_n(from + s_.in, s_.rest, to + s_.out);
      }
    return out;
  }

 private:
  DType type_;
  Sizes s_;
  Random random_{9};
  test::Bytes source_;
  test::Bytes memory_;
  Operand packed_, plain_;
};

class HeadLinearOfType : public ::testing::TestWithParam<DType> {};

TEST_P(HeadLinearOfType, ContractHoldsForEveryTargetAndNumberOfRows) {
  Heads heads(GetParam(), {.in = std::max(64, info(GetParam()).block)});
  for (const bool exact : {false, true}) {
    const Matrix x = heads.rows(52);
    const Matrix want = heads.expected(x, exact);
    int workers = 1;
    for (const Target target : supported_targets())
      test::expect_same_bits(heads.run(x, {target, workers++}, exact), want, name(target).data());
    for (const int64_t count : {1, 2, 4, 7, 21}) {
      Matrix some_x = x, some = want;
      for (Matrix* part : {&some_x, &some}) {
        part->operand.data += 31 * part->operand.stride;
        part->operand.rows = count;
      }
      const Target best = supported_targets().front();
      test::expect_same_bits(heads.run(some_x, {best, 5}, exact, true, 512), some);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HeadLinearOfType, ::testing::ValuesIn(test::typical_types()),
                         [](const auto& at) { return std::string(veery::info(at.param).name); });

TEST(HeadLinear, OddSizesAndTheReference) {
  for (const Sizes& s : {Sizes{1, 7, 9, 0}, Sizes{5, 13, 32, 3}, Sizes{2, 1, 1, 64}}) {
    Heads heads(DType::kF32, s);
    const Matrix x = heads.rows(9);
    const Matrix want = heads.expected(x, true);
    test::expect_near(heads.run(x, {Target::kReference, 2}, false, false), want, 1e-5, "plain");
    for (const Target target : supported_targets())
      test::expect_same_bits(heads.run(x, {target, 2}, false), want, name(target).data());
  }
}

TEST(Concat, PutsRowsSideBySide) {
  Random random(3);
  const Matrix a = test::random_matrix(4, 5, random), b = test::random_matrix(4, 3, random);
  Matrix out(4, 8);
  test::run(op::kConcat, {a.operand, b.operand}, out.operand, {}, test::plain_shape(4),
            {.workers = 3});
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 8; ++c) EXPECT_EQ(out[r][c], c < 5 ? a[r][c] : b[r][c - 5]);
}

TEST(Shift, StaysWithinASequence) {
  Random random(4);
  const Matrix x = test::random_matrix(7, 3, random);
  const Span spans[] = {{0, 0, 4, 0}, {1, 4, 1, 9}, {2, 5, 2, 0}};
  const int32_t span_of[] = {0, 0, 0, 0, 1, 2, 2};
  RunShape shape = test::plain_shape(7);
  shape.spans = spans;
  shape.span_of = span_of;
  shape.span_count = 3;
  for (const int32_t by : {1, -1, 2, 0, -5}) {
    Matrix out(7, 3);
    test::run(op::kShift, {x.operand}, out.operand, ShiftAttr{by}, shape, {.workers = 2});
    for (int r = 0; r < 7; ++r) {
      const int from = r - by;
      const bool inside = from >= 0 && from < 7 && span_of[from] == span_of[r];
      for (int c = 0; c < 3; ++c) EXPECT_EQ(out[r][c], inside ? x[from][c] : 0) << r << " " << by;
    }
  }
}

}  // namespace
}  // namespace veery

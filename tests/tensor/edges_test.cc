// Tensors at the edges: numbers at their limits, arguments without bounds, empty axes, one
// rounding.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tensor/reference.h"

namespace veery::tensor {
namespace {

using Unary = Tensor (*)(const Tensor&);

template <typename F>
void expect_input_error(const F& call, std::string_view part) {
  try {
    call();
    ADD_FAILURE() << "accepted, expected an error with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

// Functions that are chains of others round the result of the chain only.
TEST(TensorRounding, ChainsOfFunctionsAreRoundedOnce) {
  constexpr Unary kChains[] = {silu, gelu, gelu_tanh, gelu_fast, softplus};
  for (const Dtype type : {Dtype::kF16, Dtype::kBF16})
    for (const Unary chain : kChains) {
      const Tensor x = test::numbers({513}, type, 7, -6, 6);
      EXPECT_EQ(chain(x).dtype(), type);
      EXPECT_EQ(chain(x).values<float>(),
                astype(chain(astype(x, Dtype::kF32)), type).values<float>());
    }
}

TEST(TensorRounding, DeviationsAndSumsOfExponentialsAreRoundedOnce) {
  for (const Dtype type : {Dtype::kF16, Dtype::kBF16}) {
    const Tensor x = test::numbers({31, 9}, type, 8), y = test::numbers({31, 9}, type, 9);
    const Tensor wide = astype(x, Dtype::kF32), other = astype(y, Dtype::kF32);
    EXPECT_EQ(std_dev(x, {0}).values<float>(), astype(std_dev(wide, {0}), type).values<float>());
    EXPECT_EQ(logaddexp(x, y).values<float>(),
              astype(logaddexp(wide, other), type).values<float>());
  }
}

// Intermediate results of integers would wrap around.
TEST(TensorRounding, ChainsOfFunctionsTakeIntegersAsFloats) {
  const Tensor x = Tensor::of<int32_t>({INT32_MIN, -3, 0, 5, INT32_MAX});
  const Tensor wide = astype(x, Dtype::kF32);
  for (const Unary chain : {silu, gelu, gelu_tanh, gelu_fast, softplus})
    EXPECT_EQ(chain(x).values<float>(), chain(wide).values<float>());
  EXPECT_EQ(logaddexp(x, flip(x)).values<float>(), logaddexp(wide, flip(wide)).values<float>());
  // Beside f64 they keep their digits.
  const Tensor sum = logaddexp(Tensor::of<int32_t>({INT32_MAX}), Tensor::of<double>({0.0}));
  EXPECT_EQ(sum.item<double>(), INT32_MAX);
}

TEST(TensorEdges, SharesOfEqualExtremesHaveTheDigitsOfTheType) {
  const std::array x = {Tensor::of<double>({2, 2, 1, 2})};
  const auto gradients = grad([](std::span<const Tensor> in) { return max(in[0]); })(x);
  EXPECT_EQ(gradients[0].values<double>(), (std::vector<double>{1.0 / 3, 1.0 / 3, 0, 1.0 / 3}));
}

// The constant is computed before the sum, which has it in a register through another broadcast.
TEST(TensorEdges, AConstantMayBeATargetAndAnOperand) {
  const Tensor constant = full({3}, 2), x = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::array both = {constant, x + constant};
  eval(both);
  EXPECT_EQ(both[1].values<float>(), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ((x * constant).values<float>(), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST(TensorEdges, ReductionsOfEmptyAxes) {
  const Tensor x = zeros({3, 0});
  EXPECT_EQ(softmax(x).shape(), (Shape{3, 0}));
  EXPECT_EQ(log_softmax(astype(x, Dtype::kI32)).dtype(), Dtype::kF32);
  EXPECT_EQ(logsumexp(x, {1}).values<float>(), std::vector<float>(3, -INFINITY));
  EXPECT_EQ(logsumexp(x, {0}).shape(), (Shape{0}));
  for (const Dtype type : {Dtype::kBool, Dtype::kI32, Dtype::kF32}) {
    expect_input_error([&] { max(astype(x, type), {1}); }, "axis 1 of [3, 0] is empty");
    expect_input_error([&] { min(astype(x, type)); }, "is empty");
    EXPECT_EQ(max(astype(x, type), {0}).shape(), (Shape{0}));
  }
}

TEST(TensorEdges, SizesThatOverflowAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Tensor x = zeros({3, 2});
  expect_input_error([&] { repeat(x, kMost, 0); }, "invalid shape");
  expect_input_error([&] { tile(x, {kMost, kMost}); }, "invalid shape");
  expect_input_error([&] { pad(x, {{kMost, kMost}, {1, 1}}); }, "invalid shape");
  expect_input_error([&] { pad(x, {{kMost, 0}, {0, 0}}); }, "invalid shape");
  expect_input_error([&] { reshape(x, {int64_t{1} << 32, int64_t{1} << 32}); }, "invalid shape");
  expect_input_error([&] { reshape(x, {-2, -3}); }, "invalid shape");
  const Tensor huge = broadcast_to(zeros({1}), {int64_t{1} << 59});
  expect_input_error([&] { concatenate(std::vector<Tensor>(40, huge)); }, "invalid shape");
}

TEST(TensorEdges, ShiftsAndStepsOfAnySize) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Tensor x = Tensor::of<int32_t>({1, 2, 3, 4, 5});
  EXPECT_EQ(roll(x, kLeast, 0).values<int32_t>(), roll(x, kLeast % 5, 0).values<int32_t>());
  EXPECT_EQ(roll(x, kMost, 0).values<int32_t>(), roll(x, kMost % 5, 0).values<int32_t>());
  EXPECT_EQ(slice(x, {{{}, {}, kLeast}}).values<int32_t>(), std::vector<int32_t>{5});
  EXPECT_EQ(slice(x, {{1, {}, kMost}}).values<int32_t>(), std::vector<int32_t>{2});
  EXPECT_EQ(slice_update(x, {{2, {}, kMost}}, Tensor::of<int32_t>({9})).values<int32_t>(),
            (std::vector<int32_t>{1, 2, 9, 4, 5}));
  const Tensor square = ones({2, 2}, Dtype::kI32);
  for (const int64_t k : {kLeast, kMost, int64_t{1} << 40}) {
    EXPECT_EQ(sum(eye(3, 3, k)).item<double>(), 0);
    EXPECT_EQ(sum(tril(square, k)).item<int64_t>(), k > 0 ? 4 : 0);
    EXPECT_EQ(sum(triu(square, k)).item<int64_t>(), k > 0 ? 0 : 4);
  }
}

TEST(TensorEdges, NumbersOfArangeFitTheirType) {
  expect_input_error([] { arange(0, 300, 1, Dtype::kU8); }, "arange: 299 is no number of type u8");
  expect_input_error([] { arange(-1, 3, 1, Dtype::kU32); }, "-1 is no number of type u32");
  expect_input_error([] { arange(1e300, 2e300, 1e300, Dtype::kI64); }, "no number of type i64");
  EXPECT_EQ(arange(5, 6, 1e300, Dtype::kI64).values<int64_t>(), std::vector<int64_t>{5});
  EXPECT_EQ(arange(0, 256, 1, Dtype::kU8).dim(0), 256);
}

TEST(TensorEdges, BorrowedMemoryIsAligned) {
  alignas(8) std::array<std::byte, 24> bytes{};
  bool released = false;
  expect_input_error(
      [&] { Tensor::borrow(bytes.data() + 1, {2}, Dtype::kF32, [&] { released = true; }); },
      "multiple of 4 bytes");
  EXPECT_FALSE(released);
  EXPECT_EQ(Tensor::borrow(bytes.data() + 1, {3}, Dtype::kU8, {}).values<int64_t>(),
            std::vector<int64_t>(3, 0));
}

}  // namespace
}  // namespace veery::tensor

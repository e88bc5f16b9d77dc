// Tensors: views, element-wise functions, reductions, products, memory.
#include "veery/tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/reference.h"

namespace veery::tensor {
namespace {

using test::distance;
using test::numbers;

TEST(Tensor, HoldsWhatItIsGiven) {
  const Tensor x = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.dtype(), Dtype::kF32);
  EXPECT_EQ(x.values<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(x.text(), "f32 [2, 3] [[1, 2, 3], [4, 5, 6]]");
  EXPECT_EQ(Tensor::of<float>({0.1F, -1e30F}).text(), "f32 [2] [0.1, -1e+30]");
  EXPECT_EQ(Tensor::of<double>({1.0 / 3}).text(), "f64 [1] [0.3333333333333333]");
  EXPECT_EQ(Tensor::of<double>({2.5}, {}).shape(), Shape{});
  EXPECT_EQ(Tensor::of<double>({2.5}).shape(), Shape{1});
  EXPECT_EQ(Tensor::of<double>({2.5}).item<float>(), 2.5F);
  EXPECT_EQ(zeros({0, 3}).values<float>().size(), 0U);
}

TEST(Tensor, ReadsViewsByTheirIndices) {
  const Tensor x = reshape(arange(0, 24), {2, 3, 4});
  const Tensor y = transpose(x, {2, 0, 1});
  std::vector<int64_t> expected;
  for (int64_t c = 0; c < 4; ++c)
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 3; ++b) expected.push_back(a * 12 + b * 4 + c);
  EXPECT_EQ(y.values<int64_t>(), expected);
  EXPECT_EQ((y + 0).values<int64_t>(), expected);
  EXPECT_EQ(slice(x, {{1, {}, 1}, {{}, {}, -2}, {3, 0, -1}}).values<int64_t>(),
            (std::vector<int64_t>{23, 22, 21, 15, 14, 13}));
  EXPECT_EQ(flatten(slice(y, {{1, 3, 1}})).values<int64_t>(),
            std::vector<int64_t>(expected.begin() + 6, expected.begin() + 18));
}

TEST(Tensor, ViewsShareMemory) {
  const Tensor x = astype(arange(0, 12), Dtype::kF32);
  const Tensor y = transpose(reshape(x, {3, 4}));
  y.eval();
  x.eval();
  EXPECT_EQ(x.data(), y.data());
  EXPECT_EQ(y.byte_strides(), (std::vector<int64_t>{4, 16}));
}

TEST(Tensor, PromotesAsTheStandardSays) {
  EXPECT_EQ(promote(Dtype::kU8, Dtype::kI8), Dtype::kI32);
  EXPECT_EQ(promote(Dtype::kI32, Dtype::kU32), Dtype::kI64);
  EXPECT_EQ(promote(Dtype::kF16, Dtype::kBF16), Dtype::kF32);
  EXPECT_EQ(promote(Dtype::kI64, Dtype::kF16), Dtype::kF16);
  EXPECT_EQ((arange(0, 3) * 2.5).dtype(), Dtype::kF32);
  EXPECT_EQ((ones({2}, Dtype::kBF16) * 2.5).dtype(), Dtype::kBF16);
}

// Chains of any length, with broadcast operands, equal the same functions one by one.
TEST(Elementwise, FusedChainsHaveTheBitsOfSingleFunctions) {
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kF64}) {
    const Tensor x = numbers({37, 1025}, type, 1), row = numbers({1025}, type, 2);
    const Tensor column = numbers({37, 1}, type, 3);
    const auto chain = [&](bool one_by_one) {
      Tensor y = x;
      for (int i = 0; i < 12; ++i) {
        y = i % 4 == 0   ? y * row
            : i % 4 == 1 ? tanh(y)
            : i % 4 == 2 ? y + column * 0.25
                         : where(y < 0.5, exp(y), sqrt(abs(y)));
        if (one_by_one) y.eval();
      }
      return y;
    };
    EXPECT_EQ(chain(false).values<double>(), chain(true).values<double>()) << name(type);
  }
}

struct UnaryCase {
  const char* name;
  Tensor (*fn)(const Tensor&);
  double (*expected)(double);
  double low, high;
};

TEST(Elementwise, UnaryFunctionsAreThoseOfTheLibrary) {
  const UnaryCase cases[] = {
      {"exp", exp, std::exp, -100, 88.7},     {"log", log, std::log, 0, 1e6},
      {"log small", log, std::log, 0, 2},     {"tanh", tanh, std::tanh, -10, 10},
      {"sin", sin, std::sin, -100, 100},      {"erf", erf, std::erf, -4, 4},
      {"asinh", asinh, std::asinh, -9, 9},    {"expm1", expm1, std::expm1, -2, 2},
      {"log1p", log1p, std::log1p, -1, 5},    {"sqrt", sqrt, std::sqrt, 0, 9},
      {"round", round, std::nearbyint, -9, 9}};
  for (const UnaryCase& c : cases) {
    const Tensor x = numbers({3001}, Dtype::kF32, 5, c.low, c.high);
    const std::vector<double> in = x.values<double>(), out = c.fn(x).values<double>();
    for (size_t i = 0; i < in.size(); ++i) {
      const double expected = c.expected(in[i]);
      const double most = 4e-7 * std::max(std::fabs(expected), 1e-37);
      ASSERT_NEAR(out[i], expected, most) << c.name << " " << in[i];
    }
  }
}

TEST(Elementwise, ErfinvIsTheInverseOfErf) {
  const Tensor y = Tensor::of<double>({1e-17, -1e-12, 1e-5, 0.3, -0.7, 1.5, 4, 5.5});
  // 1 - erf(5.5) is 67 units of erf, so that its rounding moves the inverse by up to 1.3e-4.
  EXPECT_LE(distance(erfinv(erf(y)) / y, ones({8}, Dtype::kF64)), 2e-4);
  EXPECT_LE(distance(slice(erfinv(erf(y)) / y, {{0, 6, 1}}), ones({6}, Dtype::kF64)), 1e-14);
}

TEST(Elementwise, SpecialNumbers) {
  const Tensor x = Tensor::of<float>({NAN, INFINITY, -INFINITY, 0.0F, -0.0F, -1.0F, 1e-40F});
  const auto expect = [&](const Tensor& y, double (*fn)(double), const char* what) {
    const std::vector<double> in = x.values<double>(), out = y.values<double>();
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_LE(distance(out[i], fn(in[i])), 1e-6) << what << " " << in[i];
  };
  expect(exp(x), std::exp, "exp");
  expect(log(x), std::log, "log");
  expect(tanh(x), std::tanh, "tanh");
  expect(sqrt(x), std::sqrt, "sqrt");
  expect(erf(x), std::erf, "erf");
  EXPECT_EQ(isnan(x).values<int64_t>(), (std::vector<int64_t>{1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(isfinite(x).values<int64_t>(), (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(astype(x * 1e30, Dtype::kI32).values<int64_t>(),
            (std::vector<int64_t>{0, INT32_MAX, INT32_MIN, 0, 0, INT32_MIN, 0}));
  EXPECT_TRUE(std::isnan(maximum(x, 0).values<double>()[0]));
}

TEST(Elementwise, IntegersDivideAsInPython) {
  const Tensor a = Tensor::of<int32_t>({7, -7, 7, -7, INT32_MIN, 5});
  const Tensor b = Tensor::of<int32_t>({2, 2, -2, -2, -1, 0});
  EXPECT_EQ(floor_divide(a, b).values<int32_t>(),
            (std::vector<int32_t>{3, -4, -4, 3, INT32_MIN, 0}));
  EXPECT_EQ(remainder(a, b).values<int32_t>(), (std::vector<int32_t>{1, 1, -1, -1, 0, 0}));
  EXPECT_EQ(floor_divide(astype(a, Dtype::kF64), 2.0).values<double>()[1], -4);
}

TEST(Reduce, SumsOverAnyAxesAndLayout) {
  const Tensor x = numbers({5, 33, 129}, Dtype::kF32, 7);
  const std::vector<double> values = x.values<double>();
  for (const Axes& axes : {Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}, Axes{1, 2}, Axes{}}) {
    std::vector<double> expected;
    const auto at = [&](int axis) {
      return axes.empty() || std::find(axes.begin(), axes.end(), axis) != axes.end();
    };
    const Shape kept = {at(0) ? 1 : 5, at(1) ? 1 : 33, at(2) ? 1 : 129};
    expected.resize(static_cast<size_t>(kept[0] * kept[1] * kept[2]));
    for (int64_t i = 0; i < 5 * 33 * 129; ++i) {
      const int64_t a = i / (33 * 129) % kept[0], b = i / 129 % 33 % kept[1], c = i % 129 % kept[2];
      expected[static_cast<size_t>((a * kept[1] + b) * kept[2] + c)] +=
          values[static_cast<size_t>(i)];
    }
    const Tensor sums = sum(x, axes, true);
    EXPECT_EQ(sums.shape(), kept);
    const std::vector<double> found = sums.values<double>();
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-3);
    // The order of a sum does not depend on the layout in memory, nor on what comes before it.
    const Tensor other = transpose(x, {2, 0, 1}) + 0;
    other.eval();
    EXPECT_EQ(sum(transpose(other, {1, 2, 0}), axes, true).values<double>(), found);
    EXPECT_EQ(sum(x * 1.0F, axes, true).values<double>(), found);
  }
}

TEST(Reduce, OtherReductions) {
  const Tensor x = numbers({40, 700}, Dtype::kF64, 9);
  const std::vector<double> values = x.values<double>();
  const auto row = std::span(values).subspan(700, 700);
  EXPECT_EQ(max(x, {1}).values<double>()[1], *std::max_element(row.begin(), row.end()));
  EXPECT_EQ(min(x, {1}).values<double>()[1], *std::min_element(row.begin(), row.end()));
  double sums = 0, squares = 0, powers = 0;
  for (const double v : row) sums += v, powers += std::exp(v);
  for (const double v : row) squares += (v - sums / 700) * (v - sums / 700);
  EXPECT_NEAR(mean(x, {1}).values<double>()[1], sums / 700, 1e-12);
  EXPECT_NEAR(var(x, {1}, false, 1).values<double>()[1], squares / 699, 1e-12);
  EXPECT_NEAR(logsumexp(x, {1}).values<double>()[1], std::log(powers), 1e-12);
  EXPECT_NEAR(softmax(x).values<double>()[700], std::exp(row[0]) / powers, 1e-12);
  EXPECT_EQ(sum(full({1000}, 200, Dtype::kU8)).item<int64_t>(), 200'000);
  // Sums that f16 cannot hold, and that bf16 would round.
  EXPECT_EQ(mean(full({5000}, 100, Dtype::kF16)).item<double>(), 100);
  EXPECT_EQ(var(full({5000}, 100, Dtype::kF16)).item<double>(), 0);
  EXPECT_NEAR(logsumexp(zeros({4096}, Dtype::kBF16)).item<double>(), std::log(4096), 0.04);
  EXPECT_EQ(softmax(zeros({4096}, Dtype::kBF16)).values<double>()[7], 1.0 / 4096);
  EXPECT_FALSE(any(zeros({5})).item<bool>());
  EXPECT_TRUE(all(ones({0})).item<bool>());
  EXPECT_EQ(sum(zeros({3, 0}), {1}).values<double>(), (std::vector<double>(3)));
  EXPECT_THROW(max(zeros({3, 0}), {1}), Error);
}

TEST(Matmul, MultipliesAnyShapesAndLayouts) {
  for (const auto& [rows, inner, columns] : {std::tuple(1, 1, 1), std::tuple(7, 400, 19),
                                             std::tuple(100, 33, 50), std::tuple(3, 0, 2)}) {
    for (const Dtype type : {Dtype::kF32, Dtype::kF64, Dtype::kBF16}) {
      const Tensor a = transpose(numbers({inner, rows}, type, 11));
      const Tensor b = numbers({inner, columns}, type, 12);
      const std::vector<double> x = a.values<double>(), y = b.values<double>();
      const std::vector<double> found = matmul(a, b).values<double>();
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) {
          double sum = 0;
          for (int k = 0; k < inner; ++k)
            sum += x[static_cast<size_t>(r * inner + k)] * y[static_cast<size_t>(k * columns + c)];
          const double most = type == Dtype::kF64 ? 1e-12 : type == Dtype::kF32 ? 1e-5 : 1e-2;
          EXPECT_LE(distance(found[static_cast<size_t>(r * columns + c)], sum), most * 10);
        }
    }
  }
  EXPECT_EQ(matmul(ones({4}), ones({4})).item<float>(), 4);
  EXPECT_EQ(matmul(ones({2, 1, 3, 4}), ones({5, 4, 6})).shape(), (Shape{2, 5, 3, 6}));
  EXPECT_THROW(matmul(ones({2, 3}), ones({2, 3})), Error);
}

TEST(Movement, JoinsUpdatesAndRepeats) {
  const Tensor x = reshape(arange(0, 6), {2, 3});
  EXPECT_EQ(concatenate({x, x}, 1).values<int64_t>(),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(stack({x, x}, 2).values<int64_t>(),
            (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(slice_update(x, {{}, {{}, {}, -2}}, Tensor::of<int32_t>({8, 9})).values<int64_t>(),
            (std::vector<int64_t>{9, 1, 8, 9, 4, 8}));
  EXPECT_EQ(pad(x, {{0, 1}, {1, 0}}, 7).values<int64_t>(),
            (std::vector<int64_t>{7, 0, 1, 2, 7, 3, 4, 5, 7, 7, 7, 7}));
  EXPECT_EQ(repeat(x, 2, 0).values<int64_t>(),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(tile(x, {1, 2}).values<int64_t>(),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(roll(x, 1, 1).values<int64_t>(), (std::vector<int64_t>{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(tril(ones({2, 3}, Dtype::kI32)).values<int64_t>(),
            (std::vector<int64_t>{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(linspace(0, 1, 5).values<double>(), (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(split(x, 3, 1)[1].values<int64_t>(), (std::vector<int64_t>{1, 4}));
}

TEST(Memory, IsReleasedAndLimited) {
  clear_cache();
  const size_t before = memory_use().active;
  for (int i = 0; i < 1000; ++i) {
    Tensor x = ones({1000});
    for (int k = 0; k < 5; ++k) x = exp(x * 0.1) + 1;
    EXPECT_GT(sum(x).item<float>(), 0);
  }
  EXPECT_EQ(memory_use().active, before);
  // A long chain is released without recursion.
  {
    Tensor x = ones({2});
    for (int i = 0; i < 200'000; ++i) x = transpose(reshape(x, {i % 2 + 1, 2 - i % 2}));
  }
  set_memory_limit(before + (1 << 20));
  try {
    (ones({1 << 20}) + 1).eval();
    ADD_FAILURE() << "the limit was exceeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit) << error.what();
  }
  set_memory_limit(SIZE_MAX);
  EXPECT_EQ(memory_use().active, before);
  EXPECT_EQ((ones({1 << 20}) + 1).values<float>()[5], 2);
}

TEST(Errors, NameWhatIsWrong) {
  const auto message = [](const auto& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([] {
              ones({2, 3}) + ones({4});
            }),
            "add: shapes [2, 3] and [4] cannot be broadcast");
  EXPECT_EQ(message([] {
              reshape(ones({2, 3}), {4, -1});
            }),
            "reshape: [2, 3] cannot have the shape [4, -1]");
  EXPECT_EQ(message([] { sum(ones({2}), {1}); }), "sum: axis 1 of a tensor with 1 dimensions");
  EXPECT_EQ(message([] { Tensor() + 1; }), "add: an argument is no tensor");
  EXPECT_EQ(message([] { ones({2}, Dtype::kU8) * -5; }), "multiply: -5 is no number of type u8");
  EXPECT_EQ(message([] { full({2}, NAN, Dtype::kI32); }), "full: nan is no number of type i32");
  EXPECT_EQ(message([] {
              zeros({int64_t{1} << 30, int64_t{1} << 31});
            }),
            "broadcast_to: invalid shape [1073741824, 2147483648], expected at most 8 dimensions "
            "and 2^60 elements");
  EXPECT_EQ(message([] {
              matmul(zeros({int64_t{1} << 33, 1}), zeros({1, int64_t{1} << 33}));
            }),
            "matmul: invalid shape [8589934592, 8589934592], expected at most 8 dimensions and "
            "2^60 elements");
  EXPECT_EQ(message([] { bitwise_left_shift(ones({2}, Dtype::kBool), ones({2}, Dtype::kBool)); }),
            "bitwise_left_shift: operands of bool, expected integers");
  EXPECT_EQ(message([] { ones({2}).item<float>(); }),
            "item: a tensor of shape [2], expected one element");
}

}  // namespace
}  // namespace veery::tensor

// Indexing, order and random numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tensor/reference.h"

namespace veery::tensor {
namespace {

using test::differences;
using test::distance;
using test::numbers;

TEST(Indexing, TakesRowsOfAnAxis) {
  const Tensor x = reshape(arange(0, 24), {2, 3, 4});
  const Tensor y = take(x, Tensor::of<int32_t>({2, -3, 2, 1}, {2, 2}), 1);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2, 4}));
  const std::vector<int64_t> found = y.values<int64_t>();
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t c = 0; c < 4; ++c)
        EXPECT_EQ(found[static_cast<size_t>((a * 4 + j) * 4 + c)], a * 12 +
                                                                       (j == 1   ? 0
                                                                        : j == 3 ? 1
                                                                                 : 2) *
                                                                           4 +
                                                                       c);
  EXPECT_EQ(take(transpose(x), Tensor::of<int64_t>({3}), 0).values<int64_t>(),
            (std::vector<int64_t>{3, 15, 7, 19, 11, 23}));
  try {
    take(x, Tensor::of<int32_t>({3}), 1).eval();
    ADD_FAILURE() << "the index was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "take: index 3 of an axis with 3 elements");
  }
  EXPECT_EQ(sum(x).item<int64_t>(), 276);  // the runtime goes on
}

TEST(Indexing, AddsInTheOrderOfTheIndices) {
  const Tensor x = zeros({3, 2}, Dtype::kF32);
  const Tensor updates = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(scatter_add(x, Tensor::of<int32_t>({2, 0, 2}), updates).values<float>(),
            (std::vector<float>{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(scatter_add_along_axis(x, Tensor::of<int32_t>({0, 1, 0, -1}, {2, 2}), ones({2, 2}), 0)
                .values<float>(),
            (std::vector<float>{2, 0, 0, 1, 0, 1}));
  EXPECT_EQ(take_along_axis(updates, Tensor::of<int32_t>({1, 0, 1}, {3, 1}), 1).values<float>(),
            (std::vector<float>{2, 3, 6}));
  EXPECT_EQ(one_hot(Tensor::of<int32_t>({1, 3}), 3, Dtype::kI32).values<int64_t>(),
            (std::vector<int64_t>{0, 1, 0, 0, 0, 0}));
}

TEST(Indexing, HasGradients) {
  const Tensor x = numbers({4, 3}, Dtype::kF64, 1);
  const Tensor rows = Tensor::of<int32_t>({3, 0, 3});
  const Tensor places = Tensor::of<int32_t>({2, 0, 1, 1, 0, 0, 2, 2}, {4, 2});
  const std::function<Tensor(const Tensor&)> functions[] = {
      [&](const Tensor& a) { return sum(square(take(a, rows))); },
      [&](const Tensor& a) { return sum(square(take_along_axis(a, places))); },
      [&](const Tensor& a) {
        return sum(square(scatter_add(a, rows, slice(a, {{0, 3, 1}}))));
      },
      [&](const Tensor& a) {
        return sum(square(scatter_add_along_axis(a, places, slice(a, {{}, {0, 2, 1}}))));
      },
      [&](const Tensor& a) { return sum(square(cumsum(a, 0)) * 0.5); },
      [&](const Tensor& a) { return sum(cumprod(a, 0)); },
      [&](const Tensor& a) {
        return sum(cumprod(a * tril(ones({4, 3}, Dtype::kF64)), 1));
      },
      [&](const Tensor& a) { return sum(sort(a) * arange(0, 3)); }};
  for (const auto& fn : functions) {
    const ScalarFunction as_function = [&](std::span<const Tensor> in) { return fn(in[0]); };
    EXPECT_LE(distance(grad(as_function)({&x, 1})[0], differences(fn, x)), 1e-6);
  }
}

TEST(Order, SortsWithNanLast) {
  const Tensor x = Tensor::of<float>({3, NAN, 1, 2, -INFINITY, 1});
  EXPECT_EQ(argsort(x).values<int64_t>(), (std::vector<int64_t>{4, 2, 5, 3, 0, 1}));
  EXPECT_EQ(argsort(x, -1, true).values<int64_t>(), (std::vector<int64_t>{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(argmax(x).item<int64_t>(), 1);
  EXPECT_EQ(argmin(Tensor::of<int32_t>({3, 1, 1})).item<int64_t>(), 1);
  const Tensor m = numbers({5, 70}, Dtype::kF32, 3);
  const std::vector<float> values = m.values<float>(), sorted = sort(m, 0).values<float>();
  for (size_t c = 0; c < 70; ++c) {
    std::vector<float> column;
    for (size_t r = 0; r < 5; ++r) column.push_back(values[r * 70 + c]);
    std::sort(column.begin(), column.end());
    for (size_t r = 0; r < 5; ++r) EXPECT_EQ(sorted[r * 70 + c], column[r]);
  }
  const auto [best, places] = top_k(m, 2, 1);
  EXPECT_EQ(best.shape(), (Shape{5, 2}));
  EXPECT_EQ(take_along_axis(m, places).values<float>(), best.values<float>());
  EXPECT_EQ(slice(best, {{}, {0, 1, 1}}).values<float>(), max(m, {1}).values<float>());
}

TEST(Order, SearchesAndCumulates) {
  const Tensor sorted = Tensor::of<float>({1, 2, 2, 5}), values = Tensor::of<float>({2, 0, 6, 5});
  EXPECT_EQ(searchsorted(sorted, values).values<int64_t>(), (std::vector<int64_t>{1, 0, 4, 3}));
  EXPECT_EQ(searchsorted(sorted, values, true).values<int64_t>(),
            (std::vector<int64_t>{3, 0, 4, 4}));
  EXPECT_EQ(cumsum(reshape(arange(0, 6), {2, 3}), 0).values<int64_t>(),
            (std::vector<int64_t>{0, 1, 2, 3, 5, 7}));
  EXPECT_EQ(cumprod(arange(1, 6)).values<int64_t>(), (std::vector<int64_t>{1, 2, 6, 24, 120}));
}

TEST(Random, StaysWithinItsBounds) {
  const Tensor key = random::key(9);
  for (const Dtype type : {Dtype::kF16, Dtype::kBF16, Dtype::kF32}) {
    EXPECT_LT(max(random::uniform(key, {1 << 16}, 1, 2, type)).item<double>(), 2);
    EXPECT_LT(max(random::uniform(key, {1 << 16}, -1, 0, type)).item<double>(), 0);
  }
  const Tensor tail = random::truncated_normal(key, {1 << 12}, 5, 6);
  EXPECT_GE(min(tail).item<double>(), 5);
  EXPECT_LT(max(tail).item<double>(), 6);
  EXPECT_NEAR(mean(tail).item<double>(), 5.1865, 0.02);
  EXPECT_THROW(random::randint(key, {2}, 0, 300, Dtype::kU8), Error);
}

TEST(Random, DependsOnTheKeyAlone) {
  const Tensor key = random::key(42);
  EXPECT_EQ(random::bits(key, {7}).values<uint32_t>(),
            slice(flatten(random::bits(key, {3, 5})), {{0, 7, 1}}).values<uint32_t>());
  const Tensor keys = random::split(key, 3);
  EXPECT_EQ(keys.shape(), (Shape{3, 2}));
  std::set<uint32_t> words;
  for (const uint32_t word : keys.values<uint32_t>()) words.insert(word);
  EXPECT_EQ(words.size(), 6U);
}

// Moments of 2^18 numbers, within 5 standard errors.
TEST(Random, HasTheRightMoments) {
  const int64_t count = 1 << 18;
  const auto key = [](uint64_t seed) { return random::key(seed); };
  const auto expect = [&](const Tensor& x, double mean_of, double deviation, const char* what) {
    EXPECT_NEAR(mean(astype(x, Dtype::kF64)).item<double>(), mean_of, 5 * deviation / 512) << what;
    EXPECT_NEAR(std_dev(astype(x, Dtype::kF64)).item<double>(), deviation, 0.01 * deviation)
        << what;
  };
  expect(random::uniform(key(1), {count}, 2, 4), 3, 2 / std::sqrt(12.0), "uniform");
  expect(random::normal(key(2), {count}, 1, 3), 1, 3, "normal");
  expect(random::randint(key(3), {count}, -3, 4), 0, 2, "randint");
  expect(random::bernoulli(key(4), full({count}, 0.25)), 0.25, std::sqrt(0.1875), "bernoulli");
  expect(random::gumbel(key(5), {count}), 0.5772156649, 1.2825498302, "gumbel");
  const Tensor cut = random::truncated_normal(key(6), {count}, -1, 1);
  expect(cut, 0, 0.5396, "truncated_normal");
  EXPECT_GE(min(cut).item<double>(), -1);
  const Tensor logits = log(Tensor::of<float>({0.1F, 0.2F, 0.7F}));
  const Tensor drawn = random::categorical(key(7), broadcast_to(logits, {count, 3}));
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_NEAR(mean(astype(equal(drawn, i), Dtype::kF64)).item<double>(),
                std::exp(logits.values<double>()[static_cast<size_t>(i)]), 0.005);
  const std::vector<int64_t> order = random::permutation(key(8), 1000).values<int64_t>();
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

}  // namespace
}  // namespace veery::tensor

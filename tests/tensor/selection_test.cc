// Strided views, iteration, masks and what depends on values.
#include <gtest/gtest.h>

#include "tensor/reference.h"
#include "veery/tensor_transforms.hpp"

namespace veery::tensor {
namespace {

using test::numbers;

using Integers = std::vector<int64_t>;

TEST(AsStrided, ReadsElementsInRowMajorOrder) {
  const Tensor x = reshape(arange(0, 12), {3, 4});
  EXPECT_EQ(as_strided(x, {2, 3}, {4, 1}, 1).values<int64_t>(), (Integers{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(as_strided(x, {3, 3}, {1, 1}).values<int64_t>(), (Integers{0, 1, 2, 1, 2, 3, 2, 3, 4}));
  EXPECT_EQ(as_strided(x, {4}, {-3}, 11).values<int64_t>(), (Integers{11, 8, 5, 2}));
  EXPECT_EQ(as_strided(x, {2, 2}, {0, 1}, 3).values<int64_t>(), (Integers{3, 4, 3, 4}));
  // The elements are those of the view, whatever its layout.
  const Tensor y = transpose(x);
  EXPECT_EQ(as_strided(y, {4}, {1}, 1).values<int64_t>(), (Integers{4, 8, 1, 5}));
  EXPECT_EQ(as_strided(x, {0, 7}, {100, 100}, 50).size(), 0);
}

TEST(AsStrided, RefusesWhatLiesOutside) {
  const Tensor x = arange(0, 12);
  EXPECT_THROW(as_strided(x, {4}, {4}), Error);
  EXPECT_THROW(as_strided(x, {4}, {-1}, 2), Error);
  EXPECT_THROW(as_strided(x, {1}, {1}, 12), Error);
  EXPECT_THROW(as_strided(x, {1}, {1}, -1), Error);
  EXPECT_THROW(as_strided(x, {2, 2}, {1}), Error);
  EXPECT_THROW(as_strided(x, {1 << 30, 3}, {INT64_MAX, 1}), Error);
}

TEST(AsStrided, AddsDerivativesOfElementsThatAreReadOften) {
  const Function windows = [](std::span<const Tensor> in) {
    return std::vector{square(as_strided(transpose(in[0]), {5, 4}, {2, 1})) *
                       reshape(arange(1, 21), {5, 4})};
  };
  const Tensor x = numbers({3, 4}, Dtype::kF64, 1);
  const GradientCheck check = check_gradients(windows, {&x, 1});
  EXPECT_TRUE(check.passed) << check.text;
}

TEST(Views, MoveAxes) {
  const Tensor x = reshape(arange(0, 24), {2, 3, 4});
  EXPECT_EQ(moveaxis(x, 0, -1).values<int64_t>(), transpose(x, {1, 2, 0}).values<int64_t>());
  EXPECT_EQ(moveaxis(x, -1, 0).values<int64_t>(), transpose(x, {2, 0, 1}).values<int64_t>());
  EXPECT_EQ(moveaxis(x, 1, 1).shape(), x.shape());
  EXPECT_THROW(moveaxis(x, 3, 0), Error);
}

TEST(Diff, TakesDifferencesOfNeighbours) {
  const Tensor x = Tensor::of<int32_t>({1, 4, 9, 16, 2, 2});
  EXPECT_EQ(diff(x).values<int64_t>(), (Integers{3, 5, 7, -14, 0}));
  EXPECT_EQ(diff(x, 2).values<int64_t>(), (Integers{2, 2, -21, 14}));
  EXPECT_EQ(diff(x, 9).size(), 0);
  EXPECT_EQ(diff(reshape(x, {2, 3}), 1, 0).values<int64_t>(), (Integers{15, -2, -7}));
  EXPECT_EQ(diff(x > 3).values<int64_t>(), (Integers{1, 0, 0, 1, 0}));
  EXPECT_THROW(diff(x, -1), Error);
}

TEST(Elements, GoThroughAnyLayoutAndMayStop) {
  const Tensor x = reshape(arange(0, 24, 1, Dtype::kF32), {2, 3, 4});
  for (const Tensor& view :
       {x, transpose(x), slice(x, {{{}, {}, -1}, {1, {}, 1}, {{}, {}, 2}}),
        broadcast_to(slice(x, {{0, 1, 1}}), {2, 3, 4}), zeros({0, 3}), full({}, 3)}) {
    std::vector<float> found;
    for (const float value : Elements<float>(view)) found.push_back(value);
    EXPECT_EQ(found, view.values<float>());
  }
  int count = 0;
  for (const int64_t value : Elements<int64_t>(transpose(x))) {
    ++count;
    if (value == 12) break;
  }
  EXPECT_EQ(count, 2);
  std::vector<bool> bits;
  for (const bool bit : Elements<bool>(x > 20)) bits.push_back(bit);
  EXPECT_EQ(bits, (x > 20).values<bool>());
  const Tensor half = astype(x, Dtype::kBF16);
  EXPECT_EQ(*Elements<double>(slice(half, {{1, 2, 1}})).begin(), 12);
}

TEST(Masks, SelectElements) {
  const Tensor x = reshape(arange(0, 12), {3, 4}), mask = equal(x % 3, 0);
  EXPECT_EQ(masked_fill(x, mask, -1).values<int64_t>(),
            (Integers{-1, 1, 2, -1, 4, 5, -1, 7, 8, -1, 10, 11}));
  const std::vector<Tensor> places = nonzero(transpose(mask));
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].values<int64_t>(), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(places[1].values<int64_t>(), (Integers{0, 2, 1, 0}));
  EXPECT_EQ(compress(x, mask).values<int64_t>(), (Integers{0, 3, 6, 9}));
  const Tensor columns = Tensor::of<bool>({false, true, false, true});
  EXPECT_EQ(compress(x, columns, 1).values<int64_t>(), (Integers{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(compress(x, zeros({4}, Dtype::kBool), -1).shape(), (Shape{3, 0}));
  EXPECT_EQ(nonzero(zeros({2, 3}))[1].shape(), Shape{0});
  EXPECT_THROW(compress(x, columns), Error);
  EXPECT_THROW(compress(x, columns, 0), Error);
  EXPECT_THROW(masked_fill(columns, mask, 0), Error);
  EXPECT_THROW(nonzero(full({}, 1)), Error);
  const Function chosen = [](std::span<const Tensor> in) {
    return std::vector{exp(compress(in[0], in[1]))};
  };
  const std::array arguments = {astype(x, Dtype::kF64) * 0.1, mask};
  EXPECT_TRUE(check_gradients(chosen, arguments).passed);
}

TEST(Unique, GivesValuesPlacesAndCounts) {
  const Tensor x = Tensor::of<int32_t>({3, 1, 3, 2, 1, 3}, {2, 3});
  const Unique found = unique(x);
  EXPECT_EQ(found.values.values<int64_t>(), (Integers{1, 2, 3}));
  EXPECT_EQ(found.indices.values<int64_t>(), (Integers{1, 3, 0}));
  EXPECT_EQ(found.inverse.values<int64_t>(), (Integers{2, 0, 2, 1, 0, 2}));
  EXPECT_EQ(found.inverse.shape(), x.shape());
  EXPECT_EQ(found.counts.values<int64_t>(), (Integers{2, 1, 3}));
  EXPECT_EQ(found.values.dtype(), Dtype::kI32);
  // Each NaN is different, and 0 equals -0.
  const Unique floats = unique(Tensor::of<float>({NAN, 0, -0.0F, NAN, -INFINITY}));
  EXPECT_EQ(floats.counts.values<int64_t>(), (Integers{1, 2, 1, 1}));
  EXPECT_EQ(floats.inverse.values<int64_t>(), (Integers{2, 1, 1, 3, 0}));
  EXPECT_EQ(unique(x > 1).values.values<int64_t>(), (Integers{0, 1}));
  EXPECT_EQ(unique(astype(x, Dtype::kBF16)).values.values<int64_t>(), (Integers{1, 2, 3}));
  EXPECT_EQ(unique(zeros({0})).values.size(), 0);
}

}  // namespace
}  // namespace veery::tensor

// Tensors whose values are computed from what a file holds.
#include "file/row_sources.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"

namespace veery {
namespace {

std::vector<float> rows_of(const TensorView& tensor, int64_t first, int64_t last) {
  const auto cols =
      static_cast<size_t>(tensor.shape.size() > 1 ? tensor.shape[1] : tensor.shape[0]);
  std::vector<float> values(static_cast<size_t>(last - first) * cols);
  tensor.source->read(first, last, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TensorView view(const std::vector<float>& values, std::vector<int64_t> shape) {
  return {"t", DType::kF32, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(RowSources, TransposedHasTheColumnsAsRows) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const TensorView turned = transposed(view(values, {2, 3}));
  EXPECT_EQ(turned.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(rows_of(turned, 0, 3), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(rows_of(turned, 1, 2), (std::vector<float>{2, 5}));
  EXPECT_EQ(rows_of(transposed(turned), 0, 2), values);
  EXPECT_THROW(transposed(view(values, {6})), Error);
}

TEST(RowSources, ReorderedTakesRowsOrElements) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const int64_t order[] = {2, 0, 1};
  const TensorView rows = reordered_rows(view(values, {3, 2}), order);
  EXPECT_EQ(rows_of(rows, 0, 3), (std::vector<float>{5, 6, 1, 2, 3, 4}));
  EXPECT_EQ(rows_of(rows, 1, 2), (std::vector<float>{1, 2}));
  const std::vector<float> vector{7, 8, 9};
  EXPECT_EQ(rows_of(reordered_rows(view(vector, {3}), order), 0, 1), (std::vector<float>{9, 7, 8}));
  EXPECT_THROW(reordered_rows(view(values, {2, 3}), order), Error);
}

}  // namespace
}  // namespace veery

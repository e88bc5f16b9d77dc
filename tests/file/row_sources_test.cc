// Tests of tensors whose values are computed from the contents of a file.
#include "file/folder/row_sources.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "file/folder/ternary.h"

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

TEST(RowSources, TransposedSwapsRowsAndColumns) {
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

// Codes from a formula, packed as in BitNet folders.
int ternary_code(int64_t r, int64_t c) { return static_cast<int>((5 * r + 3 * c + r * c / 7) % 3); }

std::vector<std::byte> packed_ternary(int64_t rows, int64_t cols) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows / 4 * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      bytes[static_cast<size_t>(r % (rows / 4) * cols + c)] |=
          std::byte(ternary_code(r, c) << 2 * (r / (rows / 4)));
  return bytes;
}

TEST(Ternary, WeightsAreCodesMultipliedOrDividedByTheScale) {
  const float scale = 1.0F / 64;
  const StoredTensor one{"w_scale", StoredType::kF32, {1}, std::as_bytes(std::span(&scale, 1))};
  for (const int64_t cols : {7, 256, 512})
    for (const bool divided : {false, true}) {
      const auto bytes = packed_ternary(12, cols);
      const Json config = {{"quantization_config",
                            {{"quant_method", "bitnet"},
                             {"linear_class", divided ? "bitlinear" : "autobitlinear"}}}};
      ASSERT_TRUE(has_ternary_weights(config));
      const TensorView w = make_ternary_view({"w", StoredType::kU8, {3, cols}, bytes}, one, config);
      EXPECT_EQ(w.shape, (std::vector<int64_t>{12, cols}));
      EXPECT_EQ(w.dtype, cols == 7 ? DType::kF32 : DType::kTQ2_0);
      std::vector<std::byte> buffer(byte_size(w.dtype, 7 * cols));
      std::vector<float> values(static_cast<size_t>(7 * cols));
      w.source->read(4, 11, buffer.data());
      decode(w.dtype, buffer, values);
      for (int64_t r = 4; r < 11; ++r)
        for (int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(values[static_cast<size_t>((r - 4) * cols + c)],
                    (divided ? 64.0F : scale) * static_cast<float>(ternary_code(r, c) - 1))
              << r << " " << c;
    }
}

TEST(Ternary, RejectsMismatchedShapesAndScales) {
  const float scales[] = {0, 1};
  const std::vector<std::byte> bytes(8);
  const Json config = {{"quantization_config", {{"quant_method", "bitnet"}}}};
  const auto scale = [&](size_t count) {
    return StoredTensor{"s", StoredType::kF32, {}, std::as_bytes(std::span(scales, count))};
  };
  const StoredTensor matrix{"w", StoredType::kU8, {2, 4}, bytes};
  EXPECT_THROW(make_ternary_view(matrix, scale(1), config), Error);  // division by 0
  EXPECT_THROW(make_ternary_view(matrix, scale(2), config), Error);
  EXPECT_THROW(make_ternary_view({"w", StoredType::kU8, {8}, bytes}, scale(1), config), Error);
  const Json online = {
      {"quantization_config", {{"quant_method", "bitnet"}, {"quantization_mode", "online"}}}};
  EXPECT_THROW(has_ternary_weights(online), Error);
}

}  // namespace
}  // namespace veery

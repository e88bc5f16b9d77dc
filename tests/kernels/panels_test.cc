#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "kernels/linear_oracle.h"

namespace veery {
namespace {

TEST(Panels, RowsDecodeAsTheFileDoes) {
  for (const DType type : test::packed_types())
    for (const int64_t rows : {1, 15, 16, 17, 40}) {
      const int64_t cols = info(type).block == 1 ? 37 : info(type).block * 3;
      const auto source = test::random_weight(type, rows, cols, 7);
      test::Bytes packed(packed_bytes(type, rows, cols));
      const int64_t panels = (rows + 15) / 16;
      for (int64_t p = 0; p < panels; ++p)
        pack_panels(type, source.data(), rows, cols, packed.data(), p, p + 1);
      Operand w = {.data = packed.data(),
                   .stride = static_cast<int64_t>(panel_bytes(type, cols)),
                   .rows = rows,
                   .cols = static_cast<int32_t>(cols),
                   .dtype = type,
                   .layout = Layout::kPanels};
      std::vector<float> want(static_cast<size_t>(cols));
      std::vector<float> got(want.size());
      const size_t row_bytes = byte_size(type, cols);
      for (int64_t r = 0; r < rows; ++r) {
        const auto at = static_cast<size_t>(r) * row_bytes;
        decode(type, {source.data() + at, row_bytes}, want);
        decode_row(w, r, got.data());
        ASSERT_EQ(want, got) << info(type).name << " row " << r << " of " << rows;
      }
    }
}

TEST(Panels, RowMajorRowsDecodeToo) {
  const auto source = test::random_weight(DType::kQ5_K, 3, 512, 3);
  test::Bytes copy = source;
  const Operand w = {.data = copy.data(),
                     .stride = 352,
                     .rows = 3,
                     .cols = 512,
                     .dtype = DType::kQ5_K,
                     .layout = Layout::kRowMajor};
  std::vector<float> want(512);
  std::vector<float> got(512);
  decode(DType::kQ5_K, {source.data() + 704, 352}, want);
  decode_row(w, 2, got.data());
  EXPECT_EQ(want, got);
}

TEST(Panels, SizesCoverAllRows) {
  EXPECT_EQ(packed_bytes(DType::kQ4_1, 17, 64), 2 * panel_bytes(DType::kQ4_1, 64));
  EXPECT_EQ(panel_bytes(DType::kQ4_1, 64), 640U);
  EXPECT_FALSE(can_pack(DType::kI32));
  EXPECT_ANY_THROW(panel_bytes(DType::kI32, 64));
  EXPECT_ANY_THROW(panel_bytes(DType::kQ4_K, 128));
}

}  // namespace
}  // namespace veery

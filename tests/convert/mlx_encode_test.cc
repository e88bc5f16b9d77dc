// Compares MLX quantisation with mlx's own output for the same weights
// (tools/oracle/make_mlx_quantized.py).
#include "convert/mlx_encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "file/folder/safetensors.h"
#include "support/models.h"

namespace veery {
namespace {

using Mode = MlxFormat::Mode;

constexpr MlxFormat kFormats[] = {
    {Mode::kAffine, 32, 2}, {Mode::kAffine, 64, 3}, {Mode::kAffine, 128, 4},
    {Mode::kAffine, 32, 5}, {Mode::kAffine, 64, 6}, {Mode::kAffine, 128, 8},
    {Mode::kMxfp4, 32, 4},  {Mode::kMxfp8, 32, 8},  {Mode::kNvfp4, 16, 4}};

std::vector<std::byte> bytes_of(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr) return {};
  return {tensor->data.begin(), tensor->data.end()};
}

TEST(MlxEncode, MatchesMlxBitForBit) {
  const SafetensorsFile file = open_safetensors(test::fixture_path("mlx/quantized.safetensors"));
  constexpr int64_t kRows = 10, kColumns = 128;
  for (const auto& [dtype, type] :
       {std::pair(DType::kF32, "float32"), {DType::kF16, "float16"}, {DType::kBF16, "bfloat16"}}) {
    std::vector<float> values(kRows * kColumns);
    decode(dtype, bytes_of(file, type), values);
    for (const MlxFormat& format : kFormats) {
      const std::string name =
          fmt::format("{}/{}/{}/{}/", type, mlx_mode_name(format.mode), format.bits, format.group);
      const MlxRow row = mlx_row(format, dtype, kColumns);
      std::vector<std::byte> codes(row.codes * kRows), scales(row.scales * kRows),
          biases(row.biases * kRows);
      encode_mlx(format, dtype, values, {codes.data(), scales.data(), biases.data()});
      EXPECT_EQ(codes, bytes_of(file, name + "codes")) << name;
      EXPECT_EQ(scales, bytes_of(file, name + "scales")) << name;
      EXPECT_EQ(biases, bytes_of(file, name + "biases")) << name;
    }
  }
}

TEST(MlxEncode, RejectsNonFiniteValues) {
  std::vector<std::byte> out(64);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> values(32, 1);
    values[17] = bad;
    EXPECT_THROW(encode_mlx({Mode::kAffine, 32, 4}, DType::kF32, values,
                            {out.data(), out.data() + 16, out.data() + 32}),
                 Error);
  }
}

}  // namespace
}  // namespace veery

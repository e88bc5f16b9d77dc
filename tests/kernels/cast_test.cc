// cast: rounding and limits of each pair of types.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dtype/half.h"
#include "kernels/kernel_runner.h"

namespace veery {
namespace {

using test::Matrix;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<float> kValues = {
    0.0F,    -0.0F, 0.5F,   -0.5F,    1.5F, 2.5F,  -1.9F,     254.9F,     255.0F, 256.0F,
    -1e-40F, 1e10F, -1e10F, 70000.0F, 3.1F, 1e-8F, kInfinity, -kInfinity, NAN,    2147483648.0F};

// The values as `type`.
Matrix casted(const Matrix& x, DType type) {
  Matrix y(x.operand.rows, x.operand.cols, type);
  test::run(op::kCast, {x.operand}, y.operand, CastAttr{type}, test::plain_shape(1),
            {.workers = 2});
  return y;
}
Matrix values() {
  Matrix x(1, static_cast<int32_t>(kValues.size()));
  std::copy(kValues.begin(), kValues.end(), x[0]);
  return x;
}

TEST(Cast, RoundsFloatsToNearest) {
  const Matrix x = values();
  const Matrix half = casted(x, DType::kF16), brain = casted(x, DType::kBF16);
  for (size_t i = 0; i < kValues.size(); ++i) {
    EXPECT_EQ(half.operand.row<uint16_t>(0)[i], f32_to_f16(kValues[i])) << kValues[i];
    EXPECT_EQ(brain.operand.row<uint16_t>(0)[i], f32_to_bf16(kValues[i])) << kValues[i];
  }
  const Matrix back = casted(half, DType::kF32);
  for (size_t i = 0; i < kValues.size(); ++i) {
    if (std::isnan(kValues[i])) continue;
    EXPECT_EQ(back[0][i], f16_to_f32(f32_to_f16(kValues[i]))) << kValues[i];
  }
}

TEST(Cast, ClampsIntegersAndDropsTheFraction) {
  const Matrix x = values();
  const Matrix whole = casted(x, DType::kI32), bytes = casted(x, DType::kU8);
  for (size_t i = 0; i < kValues.size(); ++i) {
    const double value = std::isnan(kValues[i]) ? 0 : std::trunc(double{kValues[i]});
    EXPECT_EQ(whole.operand.row<int32_t>(0)[i],
              static_cast<int32_t>(std::clamp(value, -2147483648.0, 2147483647.0)))
        << kValues[i];
    EXPECT_EQ(bytes.operand.row<uint8_t>(0)[i], static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)))
        << kValues[i];
  }
  const Matrix back = casted(bytes, DType::kF32);
  EXPECT_EQ(back[0][7], 254);
}

}  // namespace
}  // namespace veery

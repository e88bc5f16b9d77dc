#include "kernels/common/fused.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace veery {
namespace {

void expect_as_std_fma(float a, float b, float c) {
  const float want = std::fma(a, b, c);
  const float got = fused(a, b, c);
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << a << " " << b << " " << c;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(want), std::bit_cast<uint32_t>(got))
        << a << " " << b << " " << c;
  }
}

TEST(Fused, RoundsOnceWhateverTheBits) {
  Random random(5);
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random.next())); };
  for (int i = 0; i < 300000; ++i) expect_as_std_fma(any(), any(), any());
}

// Sums at or next to the middle of two floats, for which rounding twice gives wrong results.
TEST(Fused, RoundsOnceNearTheMiddleOfTwoFloats) {
  Random random(6);
  for (int i = 0; i < 300000; ++i) {
    const auto bits = [&](uint32_t mask) { return static_cast<uint32_t>(random.next()) & mask; };
    const float a = std::bit_cast<float>(0x3f800000U | bits(0x7fffff));
    const float b = std::bit_cast<float>(0x3f800000U | bits(0x7f0001));
    const int distance = static_cast<int>(bits(63)) - 8;
    const float c = std::ldexp(std::bit_cast<float>(0x3f800000U | bits(0x400001)), distance);
    expect_as_std_fma(a, b, c);
    expect_as_std_fma(a, b, -c);
    expect_as_std_fma(std::ldexp(a, -140), std::ldexp(b, -1), std::ldexp(c, -140));  // subnormal
  }
}

TEST(Fused, TakesZerosInfinitiesAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {0.0F,      -0.0F,      1.0F,      -1.0F,
                          kInfinity, -kInfinity, NAN,       std::numeric_limits<float>::max(),
                          0x1p-149F, -0x1p-149F, 0x1p-126F, std::numeric_limits<float>::lowest()};
  for (float a : values)
    for (float b : values)
      for (float c : values) expect_as_std_fma(a, b, c);
}

}  // namespace
}  // namespace veery

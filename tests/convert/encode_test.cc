// Tests of encoding: error bounds on several kinds of data, exact cases, rejected input.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "dtype/blocks.h"
#include "dtype/dtype.h"
#include "dtype/encode/encode_lanes.h"
#include "dtype/half.h"
#include "dtype/half_lanes.h"

namespace veery {
namespace {

constexpr DType kQuantized[] = {DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0, DType::kQ5_1,
                                DType::kQ8_0,   DType::kQ8_1,  DType::kQ2_K, DType::kQ3_K,
                                DType::kQ4_K,   DType::kQ5_K,  DType::kQ6_K, DType::kQ8_K,
                                DType::kIQ4_NL, DType::kIQ4_XS};
/// Types whose steps are too coarse for most of the bounds below.
constexpr DType kCoarse[] = {DType::kMXFP4, DType::kTQ1_0, DType::kTQ2_0};

std::vector<float> round_trip(DType type, const std::vector<float>& x,
                              std::span<const float> importance = {}) {
  std::vector<std::byte> bytes(byte_size(type, static_cast<int64_t>(x.size())));
  encode(type, x, bytes, importance);
  std::vector<float> y(x.size());
  decode(type, bytes, y);
  return y;
}

// Root mean square error, divided by the root mean square of `x`.
double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(double{x[i]} - y[i], 2);
    power += std::pow(double{x[i]}, 2);
  }
  return std::sqrt(error / power);
}

std::string message_of(DType type, const std::vector<float>& x) {
  std::vector<std::byte> bytes(byte_size(type, static_cast<int64_t>(x.size())));
  try {
    encode(type, x, bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "";
}

enum class Data { kGaussian, kOutliers, kShifted };

std::vector<float> make(Data kind) {
  Random random(7);
  std::vector<float> x(256 * 64);
  for (float& value : x) {
    value = random.normal() * 0.05F;
    if (kind == Data::kOutliers && random.next() % 100 == 0) value *= 20;
    if (kind == Data::kShifted) value = std::fabs(value) + 0.015F;
  }
  return x;
}

struct Bound {
  DType type;
  double gaussian, outliers, shifted;  // relative errors
};

// Errors of ggml's reference quantisers on the same data (quantize_row_*_ref of the llama.cpp in
// llama-cpp-python 0.3.36, importances of 1 where required), rounded up in the fifth decimal. Q8_K
// has no reference quantiser there, so its bound is our own. Ternary codes leave no choice.
constexpr Bound kBounds[] = {
    {DType::kQ4_0, 0.08654, 0.14728, 0.07512},    {DType::kQ4_1, 0.07837, 0.10918, 0.03507},
    {DType::kQ5_0, 0.04285, 0.08868, 0.03839},    {DType::kQ5_1, 0.03792, 0.05343, 0.01704},
    {DType::kQ8_0, 0.00542, 0.01121, 0.00479},    {DType::kQ8_1, 0.00542, 0.01121, 0.00479},
    {DType::kQ2_K, 0.29979, 0.24111, 0.17007},    {DType::kQ3_K, 0.15043, 0.15035, 0.13217},
    {DType::kQ4_K, 0.07137, 0.09883, 0.03749},    {DType::kQ5_K, 0.03592, 0.05079, 0.01851},
    {DType::kQ6_K, 0.01768, 0.03292, 0.01589},    {DType::kQ8_K, 0.00703, 0.02765, 0.00611},
    {DType::kIQ4_NL, 0.07866, 0.12182, 0.07402},  {DType::kIQ4_XS, 0.07661, 0.12277, 0.07137},
    {DType::kIQ1_S, 0.48543, 0.68052, 0.43337},   {DType::kIQ1_M, 0.45073, 0.52838, 0.41232},
    {DType::kIQ2_XXS, 0.34435, 0.77732, 0.30193}, {DType::kIQ2_XS, 0.29781, 0.58667, 0.25414},
    {DType::kIQ2_S, 0.24973, 0.56086, 0.22578},   {DType::kIQ3_XXS, 0.18199, 0.29882, 0.15926},
    {DType::kIQ3_S, 0.13640, 0.26478, 0.13120},   {DType::kNVFP4, 0.09685, 0.09256, 0.09599},
    {DType::kMXFP4, 0.11558, 0.17637, 0.11437},   {DType::kTQ1_0, 0.81260, 0.54661, 0.81672},
    {DType::kTQ2_0, 0.81260, 0.54661, 0.81672}};

TEST(Encode, ErrorIsAtMostThatOfTheReferenceQuantisers) {
  for (const Bound& bound : kBounds) {
    const auto error = [&](Data kind) {
      const std::vector<float> x = make(kind);
      return relative_error(x, round_trip(bound.type, x));
    };
    EXPECT_LT(error(Data::kGaussian), bound.gaussian) << info(bound.type).name;
    EXPECT_LT(error(Data::kOutliers), bound.outliers) << info(bound.type).name;
    EXPECT_LT(error(Data::kShifted), bound.shifted) << info(bound.type).name;
  }
}

TEST(Encode, ZerosAndTinyValuesDecodeToZero) {
  for (const DType type : kQuantized)
    for (const float value : {0.0F, -0.0F, 1e-40F, -1e-14F}) {
      if (type == DType::kQ8_K && value == -1e-14F) continue;  // its scale is f32
      for (const float y : round_trip(type, std::vector<float>(256, value)))
        ASSERT_EQ(y, 0.0F) << info(type).name << " of " << value;
    }
}

TEST(Encode, ConstantsKeepTheirValue) {
  for (const DType type : kQuantized)
    for (const float value : {1.0F, -3.0F, 100.0F})
      for (const float y : round_trip(type, std::vector<float>(256, value)))
        ASSERT_NEAR(y, value, std::fabs(value) * 1.1e-3) << info(type).name;
}

TEST(Encode, LoneElementAmongZerosSurvives) {
  for (const DType type : kQuantized) {
    // The value tables of IQ4 contain no 0, but 1 next to -127.
    const bool has_zero = type != DType::kIQ4_NL && type != DType::kIQ4_XS;
    for (size_t at : {0U, 15U, 16U, 31U, 100U, 255U}) {
      std::vector<float> x(256);
      x[at] = at % 2 == 0 ? 2.5F : -2.5F;
      const std::vector<float> y = round_trip(type, x);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(y[i], x[i], has_zero ? 2.5e-3 * 2 : 2.5 / 126)
            << info(type).name << " element " << i;
    }
  }
}

TEST(Encode, ElementsKeepTheirPositions) {
  // Each sub-block has a different pattern, so that a permuted field shows.
  Random random(3);
  std::vector<float> x(512);
  for (float& value : x) value = random.next() % 2 == 0 ? 1.0F : -1.0F;
  for (const DType type : kQuantized) {
    const std::vector<float> y = round_trip(type, x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(y[i], x[i], 0.4) << info(type).name << " element " << i;
  }
}

TEST(Encode, CoarseTypesKeepPositionsAndSigns) {
  Random random(5);
  std::vector<float> x(512);
  for (float& value : x) value = static_cast<float>(random.next() % 3) - 1.0F;
  x[0] = x[256] = 1;
  for (const DType type : kCoarse) {
    EXPECT_EQ(round_trip(type, x), x) << info(type).name;
    EXPECT_NE(message_of(type, std::vector<float>(256, 1e20F)), "") << info(type).name;
    for (const float y : round_trip(type, std::vector<float>(256, -1e-40F))) ASSERT_EQ(y, 0.0F);
  }
}

TEST(Encode, PowersOfTwoScalesCoverTheirWholeRange) {
  for (const float largest : {1e-12F, 3e-5F, 6.0F, 9e11F}) {
    std::vector<float> x(32);
    for (size_t i = 0; i < x.size(); ++i) x[i] = largest * (i % 2 == 0 ? 1.0F : -0.5F);
    EXPECT_LT(relative_error(x, round_trip(DType::kMXFP4, x)), 0.2) << largest;
  }
}

TEST(Encode, AllInstructionSetsGiveTheSameBits) {
  const std::vector<float> x = make(Data::kOutliers);
  std::vector<float> weights(512);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(1 + i % 7);
  for (const Bound& bound : kBounds) {
    if (bound.type == DType::kQ8_1 || bound.type == DType::kQ8_K) continue;
    std::vector<std::byte> expected(byte_size(bound.type, 2048)), found(expected.size());
    const auto job = [&](std::vector<std::byte>& out) {
      return EncodeJob{std::span(x).first(2048), weights.data(), weights.size(), out.data()};
    };
    lane_encoders(bound.type).back()(bound.type, job(expected));
    for (const LaneEncoder encoder : lane_encoders(bound.type)) {
      encoder(bound.type, job(found));
      EXPECT_EQ(found, expected) << info(bound.type).name;
    }
  }
}

TEST(Encode, ElementDoesNotDependOnBlocksEncodedWithIt) {
  const std::vector<float> x = make(Data::kGaussian);
  for (const Bound& bound : kBounds) {
    const auto block = static_cast<size_t>(info(bound.type).block);
    const auto bytes = static_cast<size_t>(info(bound.type).bytes);
    std::vector<std::byte> together(byte_size(bound.type, 256 * 5)), alone(bytes);
    encode(bound.type, std::span(x).first(256 * 5), together);
    for (const size_t at : {size_t{0}, size_t{256 * 5} / block - 1}) {
      encode(bound.type, std::span(x).subspan(at * block, block), alone);
      EXPECT_EQ(std::memcmp(alone.data(), together.data() + at * bytes, bytes), 0)
          << info(bound.type).name << " block " << at;
    }
  }
}

TEST(Encode, ImportancesRepeatForEveryRow) {
  constexpr size_t kRow = 768, kRows = 50;  // 24 small blocks: groups of 16 end inside rows
  Random random(9);
  std::vector<float> x(kRow * kRows), importance(kRow);
  for (float& value : x) value = random.normal();
  for (float& value : importance) value = std::exp(random.normal());
  for (const Bound& bound : kBounds) {
    const size_t bytes = byte_size(bound.type, kRow);
    std::vector<std::byte> together(bytes * kRows), alone(bytes);
    encode(bound.type, x, together, importance);
    for (size_t row = 0; row < kRows; ++row) {
      encode(bound.type, std::span(x).subspan(row * kRow, kRow), alone, importance);
      EXPECT_EQ(std::memcmp(alone.data(), together.data() + row * bytes, bytes), 0)
          << info(bound.type).name << " row " << row;
    }
  }
}

TEST(Encode, ImportanceMovesTheErrorToUnimportantElements) {
  const std::vector<float> x = make(Data::kGaussian);
  std::vector<float> importance(512, 1.0F);  // rows of 512; every fourth column counts
  for (size_t i = 0; i < importance.size(); i += 4) importance[i] = 400;
  for (const Bound& bound : kBounds) {
    // Activation types ignore importance. Ternary types have one scale for 256 elements, which
    // leaves too little freedom.
    if (bound.type == DType::kQ8_1 || bound.type == DType::kQ8_K || bound.type == DType::kTQ1_0 ||
        bound.type == DType::kTQ2_0)
      continue;
    std::vector<std::byte> bytes(byte_size(bound.type, static_cast<int64_t>(x.size())));
    const auto important_error = [&](std::span<const float> weights) {
      encode(bound.type, x, bytes, weights);
      std::vector<float> y(x.size());
      decode(bound.type, bytes, y);
      double error = 0;
      for (size_t i = 0; i < x.size(); i += 4) error += std::pow(double{x[i]} - y[i], 2);
      return error;
    };
    EXPECT_LT(important_error(importance), 0.97 * important_error({})) << info(bound.type).name;
  }
}

// Reimplements ggml's quantize_row_q2_0_ref: the scale is the largest magnitude of a block.
std::vector<float> simple_q2(std::span<const float> x) {
  std::vector<float> y(x.size());
  for (size_t b = 0; b < x.size(); b += 64) {
    float largest = 0;
    for (size_t i = 0; i < 64; ++i) largest = std::max(largest, std::fabs(x[b + i]));
    const float d = f16_to_f32(f32_to_f16(largest));
    for (size_t i = 0; i < 64; ++i)
      y[b + i] = d * std::clamp(std::round(x[b + i] / largest), -1.0F, 2.0F);
  }
  return y;
}

double squared_distance(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - y[i], 2);
  return sum;
}

TEST(Encode, Q2HasASmallerErrorThanTheLargestElementAsScale) {
  for (const Data kind : {Data::kGaussian, Data::kOutliers, Data::kShifted}) {
    const std::vector<float> x = make(kind), even(256, 1.0F);
    std::vector<std::byte> bytes(byte_size(DType::kQ2_0, static_cast<int64_t>(x.size())));
    encode(DType::kQ2_0, x, bytes, even);
    std::vector<float> y(x.size());
    decode(DType::kQ2_0, bytes, y);
    EXPECT_LT(squared_distance(x, y), 0.8 * squared_distance(x, simple_q2(x)));
  }
}

TEST(Encode, Q2RoundTripsItsValuesWithEitherSignOfScale) {
  Random random(3);
  std::vector<float> x(64 * 40);
  for (size_t b = 0; b < x.size(); b += 64) {
    const float d = f16_to_f32(f32_to_f16((b / 64 % 2 == 0 ? 1 : -1) * (0.01F + random.uniform())));
    for (size_t i = 0; i < 64; ++i)
      x[b + i] = d * static_cast<float>(random.next() % (b % 3 == 0 ? 3 : 4)) - d;
  }
  std::vector<std::byte> bytes(byte_size(DType::kQ2_0, static_cast<int64_t>(x.size())));
  encode(DType::kQ2_0, x, bytes);
  std::vector<float> y(x.size());
  decode(DType::kQ2_0, bytes, y);
  EXPECT_EQ(x, y);
}

TEST(Encode, WithoutImportancesLargeElementsCountMore) {
  const std::vector<float> x = make(Data::kGaussian);
  const std::vector<float> even(256, 1.0F);
  for (const DType type :
       {DType::kQ4_0, DType::kQ5_0, DType::kQ8_0, DType::kQ4_1, DType::kQ5_1, DType::kQ2_K,
        DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kIQ2_XXS,
        DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ1_S, DType::kTQ2_0}) {
    const auto error = [&](std::span<const float> importance, bool weighted) {
      const std::vector<float> y = round_trip(type, x, importance);
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double relative = x[i] / 0.05;  // relative to the root mean square
        sum += (weighted ? std::sqrt(2 + relative * relative) : 1) * std::pow(y[i] - x[i], 2);
      }
      return sum;
    };
    EXPECT_LT(error({}, true), error(even, true)) << info(type).name;
    EXPECT_GT(error({}, false), error(even, false)) << info(type).name;
  }
}

TEST(Encode, RejectsImportanceThatDoesNotFitRows) {
  const std::vector<float> x(512, 1.0F);
  std::vector<std::byte> bytes(byte_size(DType::kQ4_0, 512));
  for (const size_t size : {16U, 96U, 1024U})
    EXPECT_THROW(encode(DType::kQ4_0, x, bytes, std::vector<float>(size, 1.0F)), Error) << size;
  for (const float bad : {-1.0F, std::nanf(""), std::numeric_limits<float>::infinity()})
    EXPECT_THROW(encode(DType::kQ4_0, x, bytes, std::vector<float>(64, bad)), Error) << bad;
  EXPECT_NO_THROW(encode(DType::kQ4_0, x, bytes, std::vector<float>(64, 0.0F)));
}

TEST(Encode, DecodedValuesEncodeToTheSameValues) {
  const std::vector<float> x = make(Data::kGaussian);
  for (const DType type : {DType::kQ4_0, DType::kQ5_0, DType::kQ8_0, DType::kQ4_1, DType::kQ5_1,
                           DType::kIQ4_NL, DType::kMXFP4}) {
    const std::vector<float> once = round_trip(type, x);
    EXPECT_LT(relative_error(once, round_trip(type, once)), 5e-4) << info(type).name;
  }
}

TEST(Encode, ScalesAndOffsetsStayExactIfOneElementOutweighsTheRest) {
  std::vector<float> importance(256, 1.0F);
  for (size_t i = 7; i < importance.size(); i += 32) importance[i] = 1e5F;
  for (const Data kind : {Data::kGaussian, Data::kOutliers, Data::kShifted})
    for (const DType type : {DType::kQ4_1, DType::kQ5_1}) {
      const std::vector<float> once = round_trip(type, make(kind));
      EXPECT_LT(relative_error(once, round_trip(type, once, importance)), 5e-4) << info(type).name;
    }
}

TEST(Encode, SumsOfActivationBlocksMatchTheirCodes) {
  const std::vector<float> x = make(Data::kOutliers);
  std::vector<std::byte> bytes(byte_size(DType::kQ8_K, 256));
  encode(DType::kQ8_K, std::span(x).first(256), bytes);
  BlockQ8_K k;
  std::memcpy(&k, bytes.data(), sizeof k);
  for (int j = 0; j < 16; ++j) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += k.qs[16 * j + i];
    EXPECT_EQ(k.bsums[j], sum);
  }
  bytes.resize(byte_size(DType::kQ8_1, 32));
  encode(DType::kQ8_1, std::span(x).first(32), bytes);
  BlockQ8_1 b;
  std::memcpy(&b, bytes.data(), sizeof b);
  int sum = 0;
  for (const int8_t code : b.qs) sum += code;
  EXPECT_EQ(b.s, f32_to_f16(f16_to_f32(b.d) * static_cast<float>(sum)));
}

TEST(Encode, PlainTypesRoundAndKeepSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1.0F, -2.5F, inf, -inf, 0.1F, 65519.0F, std::nanf("")};
  EXPECT_EQ(round_trip(DType::kF32, x)[4], 0.1F);
  EXPECT_EQ(round_trip(DType::kF64, x)[5], 65519.0F);
  EXPECT_EQ(round_trip(DType::kF16, x)[5], 65504.0F);
  EXPECT_NEAR(round_trip(DType::kF16, x)[4], 0.1, 3e-5);
  EXPECT_NEAR(round_trip(DType::kBF16, x)[4], 0.1, 4e-4);
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    EXPECT_EQ(round_trip(type, x)[3], -inf);
    EXPECT_TRUE(std::isnan(round_trip(type, x)[6]));
  }
}

// Returns every sign and exponent with fractions around rounding boundaries of f16 and bf16, and
// random bits.
std::vector<float> many_floats() {
  Random random(17);
  std::vector<float> x;
  for (uint32_t top = 0; top < 0x200; ++top)
    for (const uint32_t fraction : {0U, 1U, 0xFFFU, 0x1000U, 0x1001U, 0x2FFFU, 0x3000U, 0x8000U,
                                    0x18000U, 0x7FEFFFU, 0x7FF000U, 0x7FFFFFU})
      x.push_back(float_of_bits(top << 23 | fraction));
  for (int i = 0; i < 20001; ++i) x.push_back(float_of_bits(static_cast<uint32_t>(random.next())));
  return x;
}

TEST(Encode, HalfConversionOfAllInstructionSetsMatchesTheScalarOne) {
  using One = uint16_t (*)(float);
  const std::pair<DType, One> types[] = {{DType::kF16, f32_to_f16}, {DType::kBF16, f32_to_bf16}};
  for (const auto& [type, one] : types) {
    const uint16_t infinity = one(std::numeric_limits<float>::infinity());
    std::vector<float> x;
    std::vector<uint16_t> expected;
    for (const float value : many_floats()) {
      if ((one(value) & 0x7FFFU) == infinity && std::isfinite(value)) continue;
      x.push_back(value);
      expected.push_back(one(value));
    }
    for (const HalfConverter& converter : half_converters()) {
      std::vector<uint16_t> found(x.size());
      ASSERT_EQ(converter.encode(type, x, reinterpret_cast<std::byte*>(found.data())), x.size());
      EXPECT_EQ(found, expected) << info(type).name;
    }
  }
}

TEST(Encode, AllHalvesDecodeToTheSameFloatsOnAllInstructionSets) {
  std::vector<uint16_t> halves(0x10000 + 5);  // not a multiple of the lane count
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  for (const DType type : {DType::kF16, DType::kBF16})
    for (const HalfConverter& converter : half_converters()) {
      std::vector<float> found(halves.size());
      converter.decode(type, reinterpret_cast<const std::byte*>(halves.data()), found);
      for (size_t i = 0; i < halves.size(); ++i)
        ASSERT_EQ(
            bits_of_float(found[i]),
            bits_of_float(type == DType::kF16 ? f16_to_f32(halves[i]) : bf16_to_f32(halves[i])))
            << info(type).name << " " << i;
    }
}

TEST(Encode, OverflowErrorsOfHalvesNameTheElement) {
  const std::pair<DType, float> first[] = {{DType::kF16, 65520.0F}, {DType::kBF16, 3.3961775e38F}};
  for (const auto& [type, least] : first)
    for (const float sign : {1.0F, -1.0F}) {
      std::vector<float> x(70, 1.0F);
      x[67] = sign * std::nextafter(least, 0.0F);
      EXPECT_TRUE(std::isfinite(round_trip(type, x)[67])) << info(type).name;
      x[67] = sign * least;
      EXPECT_NE(message_of(type, x).find("element 67"), std::string::npos) << info(type).name;
    }
}

TEST(Encode, NonFiniteInputErrorsNameTheElement) {
  for (const DType type : kQuantized)
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(512, 1.0F);
      x[300] = bad;
      EXPECT_NE(message_of(type, x).find("element 300"), std::string::npos) << info(type).name;
    }
}

TEST(Encode, ScaleOverflowErrorsNameTheElement) {
  for (const DType type : kQuantized) {
    if (type == DType::kQ8_K) continue;  // its scale is f32
    for (const float big : {1e10F, -1e20F, 3.4e38F}) {
      std::vector<float> x(512, 1.0F);
      x[300] = big;
      EXPECT_NE(message_of(type, x).find("element 300"), std::string::npos)
          << info(type).name << " of " << big << ": " << message_of(type, x);
    }
  }
}

TEST(Encode, RejectsPartialBlocksAndWrongOutputSize) {
  std::vector<std::byte> bytes(1000);
  const std::vector<float> x(256, 1.0F);
  for (const DType type : kQuantized) {
    const size_t size = byte_size(type, 256);
    EXPECT_THROW(encode(type, std::span(x).first(255), bytes), Error);
    EXPECT_THROW(encode(type, x, std::span(bytes).first(size - 1)), Error);
    EXPECT_NO_THROW(encode(type, x, std::span(bytes).first(size)));
  }
  EXPECT_THROW(encode(DType::kI32, x, std::span(bytes).first(1000)), Error);
}

}  // namespace
}  // namespace veery

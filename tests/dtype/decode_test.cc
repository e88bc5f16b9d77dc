// Tests of decoding against results recorded from Python's gguf package
// (tools/oracle/dtype_blocks.py), and of the type table.
#include "dtype/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "dtype/dtype.h"

namespace veery {
namespace {

std::vector<std::byte> read_fixture(const std::string& name) {
  std::ifstream in(VEERY_SOURCE_DIR "/tests/fixtures/dtype/" + name, std::ios::binary);
  const std::vector<char> text(std::istreambuf_iterator<char>(in), {});
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

struct Recorded {
  std::string name;
  uint32_t blocks, bytes, elements;
  std::span<const std::byte> data;
  std::vector<float> decoded;
};

std::vector<Recorded> read_records(std::span<const std::byte> file) {
  std::vector<Recorded> out;
  while (!file.empty()) {
    Recorded r;
    r.name = reinterpret_cast<const char*>(file.data());
    uint32_t sizes[3];
    std::memcpy(sizes, file.data() + 8, sizeof sizes);
    r.blocks = sizes[0];
    r.bytes = sizes[1];
    r.elements = sizes[2];
    file = file.subspan(20);
    r.data = file.first(size_t{r.blocks} * r.bytes);
    r.decoded.resize(size_t{r.blocks} * r.elements);
    std::memcpy(r.decoded.data(), file.data() + r.data.size(), r.decoded.size() * 4);
    file = file.subspan(r.data.size() + r.decoded.size() * 4);
    out.push_back(std::move(r));
  }
  return out;
}

TEST(Decode, EqualsPythonGgufBitForBit) {
  const std::vector<std::byte> file = read_fixture("blocks.bin");
  const std::vector<Recorded> records = read_records(file);
  EXPECT_EQ(records.size(), 24U);
  for (const Recorded& r : records) {
    const auto type = dtype_from_name(r.name);
    ASSERT_TRUE(type) << r.name;
    EXPECT_EQ(info(*type).block, static_cast<int>(r.elements)) << r.name;
    EXPECT_EQ(info(*type).bytes, static_cast<int>(r.bytes)) << r.name;
    std::vector<float> out(r.decoded.size());
    decode(*type, r.data, out);
    size_t finite = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      finite += std::isfinite(out[i]) ? 1 : 0;
      if (std::isnan(r.decoded[i]))
        EXPECT_TRUE(std::isnan(out[i])) << r.name << " element " << i;
      else
        ASSERT_EQ(bits_of_float(out[i]), bits_of_float(r.decoded[i]))
            << r.name << " element " << i << ": " << out[i] << " against " << r.decoded[i];
    }
    EXPECT_GE(finite, out.size() * 8 / 10) << r.name;
  }
}

TEST(Decode, UnalignedInputIsAllowed) {
  std::vector<std::byte> bytes(1 + 2 * sizeof(BlockQ8_K));
  const float d = 0.5F;
  std::memcpy(bytes.data() + 1, &d, 4);
  bytes[1 + 4] = std::byte{0xFE};
  std::vector<float> out(512);
  decode(DType::kQ8_K, std::span(bytes).subspan(1), out);
  EXPECT_EQ(out[0], -1.0F);
  EXPECT_EQ(out[1], 0.0F);
}

TEST(Decode, ActivationBlocksAreScaleTimesCode) {
  BlockQ8_1 block = {};
  block.d = f32_to_f16(0.25F);
  for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<int8_t>(i * 8 - 128);
  float out[32];
  decode_block(block, out);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], 0.25F * static_cast<float>(i * 8 - 128));
}

TEST(Decode, RejectsWrongSizesAndIntegerTypes) {
  std::vector<std::byte> bytes(18);
  std::vector<float> out(32);
  EXPECT_NO_THROW(decode(DType::kQ4_0, bytes, out));
  EXPECT_THROW(decode(DType::kQ4_0, std::span(bytes).first(17), out), Error);
  EXPECT_THROW(decode(DType::kQ4_0, bytes, std::span(out).first(31)), Error);
  EXPECT_THROW(decode(DType::kI8, bytes, std::span(out).first(18)), Error);
}

TEST(Half, EveryF16RoundTripsExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    const int exponent = half >> 10 & 0x1F;
    const int fraction = half & 0x3FF;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(value, (half & 0x8000) != 0 ? -magnitude : magnitude);
    }
    EXPECT_EQ(std::signbit(value), (half & 0x8000) != 0);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    else
      EXPECT_EQ(f32_to_f16(value), half);
  }
}

TEST(Half, F16RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = f16_to_f32(static_cast<uint16_t>(bits));
    const float high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = 0.5F * (low + high);  // exact: f32 has more bits
    EXPECT_EQ(f32_to_f16(middle), bits + (bits & 1));
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, low)), bits);
    EXPECT_EQ(f32_to_f16(-std::nextafter(middle, high)), 0x8000 | (bits + 1));
  }
  EXPECT_EQ(f32_to_f16(65519.99F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(f32_to_f16(1e-45F), 0);
}

TEST(Half, Bf16RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(float_of_bits(0x3F808000)), 0x3F80);
  EXPECT_EQ(f32_to_bf16(float_of_bits(0x3F808001)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(float_of_bits(0x3F818000)), 0x3F82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(float_of_bits(0x7F800001)))));
  EXPECT_EQ(bf16_to_f32(0xC049), -3.140625F);
}

TEST(Table, FindsTypesByNameAndNumber) {
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const DTypeInfo& row = info(static_cast<DType>(i));
    if (row.ggml == kNotInGgml)
      EXPECT_EQ(dtype_from_ggml(row.ggml), std::nullopt) << row.name;
    else
      EXPECT_EQ(dtype_from_ggml(row.ggml), row.type);
    EXPECT_EQ(dtype_from_name(row.name), row.type);
  }
  EXPECT_EQ(dtype_from_name("Q4_k"), DType::kQ4_K);
  EXPECT_EQ(dtype_from_name("q4"), std::nullopt);
  EXPECT_EQ(dtype_from_ggml(4), std::nullopt);
}

TEST(Table, ByteSizeRejectsPartialBlocksAndOverflow) {
  EXPECT_EQ(byte_size(DType::kQ4_K, 512), 288U);
  EXPECT_EQ(byte_size(DType::kF32, 7), 28U);
  EXPECT_EQ(byte_size(DType::kQ8_0, 0), 0U);
  EXPECT_THROW(byte_size(DType::kQ4_K, 255), Error);
  EXPECT_THROW(byte_size(DType::kQ4_K, -256), Error);
  EXPECT_THROW(byte_size(DType::kF64, std::numeric_limits<int64_t>::max()), Error);
}

}  // namespace
}  // namespace veery

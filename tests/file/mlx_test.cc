// Tests of weights quantised by MLX: every format against its formula, and mismatched formats.
#include "file/folder/mlx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "dtype/affine.h"
#include "file/folder/row_sources.h"

namespace veery {
namespace {

using Mode = MlxFormat::Mode;

// Random codes, packed into one bit stream per row (lowest bits first), with scales of the given
// type.
struct Packed {
  Packed(const MlxFormat& wanted, StoredType scale_type, int64_t rows, int64_t cols)
      : format(wanted) {
    Random random(17);
    codes.resize(static_cast<size_t>(rows * cols));
    words.resize(static_cast<size_t>(rows * cols * format.bits / 32));
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<unsigned>(random.next()) & ((1U << format.bits) - 1);
      if (format.mode == Mode::kMxfp8) codes[i] &= 0x77;  // no NaN
      for (int b = 0; b < format.bits; ++b) {
        const size_t bit = i * static_cast<size_t>(format.bits) + static_cast<size_t>(b);
        words[bit / 32] |= (codes[i] >> b & 1) << (bit % 32);
      }
    }
    const bool affine = format.mode == Mode::kAffine;
    const auto count = static_cast<size_t>(rows * cols / format.group);
    for (size_t i = 0; i < count; ++i) {
      const auto byte = static_cast<uint8_t>(
          format.mode == Mode::kNvfp4 ? 8 + random.next() % 100 : 110 + random.next() % 20);
      bytes.push_back(byte);
      // Eight significant bits, exact in both f16 and bf16.
      scale_values.push_back(std::ldexp(static_cast<float>(128 + random.next() % 128), -14));
      bias_values.push_back(-8 * scale_values.back());
      if (scale_type == StoredType::kF32) scale_values.back() += 1e-9F;
    }
    const std::vector<int64_t> shape{rows, cols / format.group};
    code_tensor = {"w.weight",
                   StoredType::kU32,
                   {rows, cols * format.bits / 32},
                   std::as_bytes(std::span(words))};
    if (affine) {
      store(scale_values, scale_type, scale_data);
      store(bias_values, scale_type, bias_data);
      scales = {"w.scales", scale_type, shape, scale_data};
      biases = {"w.biases", scale_type, shape, bias_data};
    } else {
      scales = {"w.scales", StoredType::kU8, shape, std::as_bytes(std::span(bytes))};
    }
  }

  static void store(const std::vector<float>& values, StoredType type,
                    std::vector<std::byte>& out) {
    const auto size = static_cast<size_t>(byte_size(type));
    out.resize(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = bits_of_float(values[i]);
      if (type == StoredType::kBF16) bits >>= 16;
      if (type == StoredType::kF16) bits = f32_to_f16(values[i]);
      std::memcpy(out.data() + i * size, &bits, size);
    }
  }

  float expected(size_t i) const {
    static constexpr float kValues[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    const size_t group = i / static_cast<size_t>(format.group);
    const unsigned code = codes[i];
    if (format.mode == Mode::kAffine)
      return scale_values[group] * static_cast<float>(code) + bias_values[group];
    const float scale = format.mode == Mode::kNvfp4 ? fp8_e4m3_to_f32(bytes[group])
                                                    : std::ldexp(1.0F, bytes[group] - 127);
    if (format.mode == Mode::kMxfp8) return scale * fp8_e4m3_to_f32(static_cast<uint8_t>(code));
    return scale * (code >= 8 ? -kValues[code - 8] : kValues[code]);
  }

  TensorView view() const {
    return make_mlx_view(code_tensor, scales, format.mode == Mode::kAffine ? &biases : nullptr,
                         format);
  }

  MlxFormat format;
  std::vector<unsigned> codes;
  std::vector<uint32_t> words;
  std::vector<uint8_t> bytes;
  std::vector<float> scale_values, bias_values;
  std::vector<std::byte> scale_data, bias_data;
  StoredTensor code_tensor, scales, biases;
};

struct Case {
  MlxFormat format;
  StoredType scales;
  DType expected;
};

TEST(Mlx, EveryFormatMatchesItsFormula) {
  std::vector<Case> cases{{{Mode::kMxfp4, 32, 4}, StoredType::kU8, DType::kMXFP4},
                          {{Mode::kMxfp8, 32, 8}, StoredType::kU8, DType::kMXFP8},
                          {{Mode::kNvfp4, 16, 4}, StoredType::kU8, DType::kNVFP4}};
  for (const int bits : {2, 3, 4, 5, 6, 8})
    for (const int64_t group : {32, 64, 128})
      for (const StoredType scales : {StoredType::kF16, StoredType::kBF16, StoredType::kF32})
        cases.push_back({{Mode::kAffine, group, bits},
                         scales,
                         affine_type({bits, static_cast<int>(group), *to_dtype(scales)})});
  for (const Case& c : cases) {
    const std::string what = fmt::format("{} bits, groups of {}, scales {}", c.format.bits,
                                         c.format.group, name(c.scales));
    const Packed packed(c.format, c.scales, 3, 256);
    const TensorView view = packed.view();
    EXPECT_EQ(view.dtype, c.expected) << what;
    ASSERT_EQ(view.shape, (std::vector<int64_t>{3, 256})) << what;
    std::vector<std::byte> buffer;
    std::vector<float> values(3 * 256);
    decode(view.dtype, view.read(buffer), values);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], packed.expected(i)) << what;
    // Reading a single row gives the same bytes.
    std::vector<std::byte> row(buffer.size() / 3);
    view.source->read(1, 2, row.data());
    EXPECT_TRUE(
        std::equal(row.begin(), row.end(), buffer.begin() + static_cast<ptrdiff_t>(row.size())));
  }
}

TEST(Mlx, ScalesAndBiasesOfTwoTypesBecomeF32) {
  Packed packed({Mode::kAffine, 64, 4}, StoredType::kBF16, 2, 128);
  Packed::store(packed.bias_values, StoredType::kF16, packed.bias_data);
  packed.biases = {"w.biases", StoredType::kF16, packed.scales.shape, packed.bias_data};
  const TensorView view = packed.view();
  EXPECT_EQ(view.dtype, affine_type({4, 64, DType::kF32}));
  std::vector<std::byte> buffer;
  std::vector<float> values(256);
  decode(view.dtype, view.read(buffer), values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], packed.expected(i));
}

TEST(Mlx, ConversionToGgufTypesKeepsTheValues) {
  const auto expect_same = [](const Packed& packed, DType type) {
    const TensorView view = in_ggml_type(packed.view());
    EXPECT_EQ(view.dtype, type);
    std::vector<std::byte> buffer;
    std::vector<float> values(3 * 256);
    decode(view.dtype, view.read(buffer), values);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], packed.expected(i)) << i;
  };
  for (const int bits : {2, 3, 4, 5, 6, 8})
    for (const int64_t group : {32, 64, 128}) {
      const DType type = bits <= 4 ? DType::kQ4_1 : bits == 5 ? DType::kQ5_1 : DType::kF32;
      Packed packed({Mode::kAffine, group, bits}, StoredType::kBF16, 3, 256);
      expect_same(packed, type);
      packed.scale_values[1] = std::ldexp(255.0F, -34);  // not representable in f16
      Packed::store(packed.scale_values, StoredType::kBF16, packed.scale_data);
      expect_same(packed, DType::kF32);
    }
  expect_same(Packed({Mode::kMxfp4, 32, 4}, StoredType::kU8, 3, 256), DType::kMXFP4);
  expect_same(Packed({Mode::kMxfp8, 32, 8}, StoredType::kU8, 3, 256), DType::kF32);
}

TEST(Mlx, RejectsMismatchedShapesAndTypes) {
  const auto message = [](Packed& packed) -> std::string {
    try {
      packed.view();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const MlxFormat format{Mode::kAffine, 64, 4};
  Packed type(format, StoredType::kF16, 2, 128);
  type.code_tensor.type = StoredType::kI32;
  EXPECT_NE(message(type).find("has type I32"), std::string::npos);
  Packed scales(format, StoredType::kF16, 2, 128);
  scales.scales.shape = {2, 3};
  EXPECT_NE(message(scales).find("scales are 2 x 3, expected 2 x 2"), std::string::npos);
  Packed biases(format, StoredType::kF16, 2, 128);
  biases.biases.shape = {1, 4};
  EXPECT_NE(message(biases).find("biases"), std::string::npos);
  Packed words(format, StoredType::kF16, 2, 128);
  words.code_tensor.shape = {2, 13};
  EXPECT_NE(message(words).find("13 words"), std::string::npos);
  Packed vector(format, StoredType::kF16, 2, 128);
  vector.code_tensor.shape = {32};
  EXPECT_NE(message(vector).find("1 dimensions"), std::string::npos);
  Packed bytes(MlxFormat{Mode::kMxfp4, 32, 4}, StoredType::kU8, 2, 128);
  bytes.scales.type = StoredType::kF8_E8M0;
  EXPECT_NE(message(bytes).find("expected U8"), std::string::npos);
}

TEST(Mlx, LayersCanHaveDifferentFormats) {
  const Json config = parse_json(
      R"({"quantization":{"group_size":64,"bits":4,"a":{"bits":8},"b":{"group_size":32,"bits":6},
          "c":{"mode":"mxfp4","group_size":null},"d":false,"e":{"bits":8,"group_size":null}}})",
      "config");
  const auto expect = [&](const char* name, Mode mode, int64_t group, int bits) {
    const auto format = mlx_format(config, name);
    ASSERT_TRUE(format.has_value()) << name;
    EXPECT_EQ(format->mode, mode) << name;
    EXPECT_EQ(format->group, group) << name;
    EXPECT_EQ(format->bits, bits) << name;
  };
  expect("x", Mode::kAffine, 64, 4);
  expect("a", Mode::kAffine, 64, 8);
  expect("b", Mode::kAffine, 32, 6);
  expect("c", Mode::kMxfp4, 32, 4);
  expect("d", Mode::kAffine, 64, 4);
  expect("e", Mode::kAffine, 64, 8);
  EXPECT_FALSE(mlx_format(parse_json("{}", "config"), "x").has_value());
  for (const char* wrong :
       {R"({"quantization":{"bits":7}})", R"({"quantization":{"bits":4,"group_size":48}})",
        R"({"quantization":{"bits":"4"}})", R"({"quantization":{"bits":4,"mode":"magic"}})",
        R"({"quantization":{"bits":8,"mode":"mxfp4"}})", R"({"quantization":{"bits":-4}})"})
    EXPECT_THROW(mlx_format(parse_json(wrong, "config"), "x"), Error) << wrong;
}

TEST(Mxfp4Experts, UnpacksAdjacentElementsFromEachByte) {
  constexpr float kValues[] = {0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6};
  Random random(5);
  std::vector<std::byte> bytes(2 * 3 * 2 * 16), exponents(2 * 3 * 2);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  for (std::byte& e : exponents) e = static_cast<std::byte>(120 + random.next() % 9);
  const StoredTensor blocks{"w_blocks", StoredType::kU8, {2, 3, 2, 16}, bytes};
  const StoredTensor scales{"w_scales", StoredType::kU8, {2, 3, 2}, exponents};
  const TensorView view = make_mxfp4_view("w", blocks, scales);
  EXPECT_EQ(view.shape, (std::vector<int64_t>{2, 3, 64}));
  std::vector<std::byte> buffer;
  std::vector<float> decoded(2 * 3 * 64);
  decode(view.dtype, view.read(buffer), decoded);
  for (size_t i = 0; i < decoded.size(); ++i) {
    const int scale = static_cast<int>(exponents[i / 32]) - 127;
    const int code = static_cast<int>(bytes[i / 2]) >> (i % 2 * 4) & 15;
    EXPECT_EQ(decoded[i], std::ldexp(kValues[code], scale)) << i;
  }
  const StoredTensor short_one{"w_scales", StoredType::kU8, {2, 3, 1}, exponents};
  EXPECT_THROW(make_mxfp4_view("w", blocks, short_one), Error);
}

TEST(RowViews, PickStackAndTransposeMatchIndexArithmetic) {
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorView whole{"w", DType::kF32, {2, 4, 3}, std::as_bytes(std::span(values))};
  const auto read = [](const TensorView& view) {
    std::vector<std::byte> buffer;
    view.read(buffer);
    std::vector<float> out(buffer.size() / sizeof(float));
    std::memcpy(out.data(), buffer.data(), buffer.size());
    return out;
  };
  const std::vector<float> odd = read(pick_rows(whole, "odd", {2, 2, 3}, {4, 1, 2}));
  const std::vector<float> last = read(pick_rows(whole, "last", {2, 2, 3}, {4, 2, 1}));
  const std::vector<float> turned = read(transposed(whole));
  for (int e = 0; e < 2; ++e)
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 3; ++c) {
        const float value = values[static_cast<size_t>((e * 4 + r) * 3 + c)];
        EXPECT_EQ(turned[static_cast<size_t>((e * 3 + c) * 4 + r)], value);
        if (r % 2 == 1) {
          EXPECT_EQ(odd[static_cast<size_t>((e * 2 + r / 2) * 3 + c)], value);
        }
        if (r >= 2) {
          EXPECT_EQ(last[static_cast<size_t>((e * 2 + r - 2) * 3 + c)], value);
        }
      }
  const TensorView half = slice_rows(whole, "half", 1, 2);
  const TensorView both = stack_tensors({half, half}, "both");
  EXPECT_EQ(both.shape, (std::vector<int64_t>{2, 1, 4, 3}));
  EXPECT_EQ(read(both)[12 + 5], values[12 + 5]);
  EXPECT_THROW(stack_tensors({whole, half}, "uneven"), Error);
}

}  // namespace
}  // namespace veery

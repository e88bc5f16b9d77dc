// Quantised weights: blocks of every type, products and their derivatives, GGUF files.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "dtype/decode.h"
#include "kernels/linear_oracle.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"
#include "tensor/errors.h"
#include "tensor/reference.h"
#include "veery/tensor_io.hpp"

namespace veery::tensor {
namespace {

using test::numbers;
using veery::test::fixture_path;
using veery::test::random_weight;
using veery::test::read_text;
using veery::test::TemporaryFolder;

std::vector<DType> block_types() {
  std::vector<DType> types;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i)
    if (const DTypeInfo& type = info(static_cast<DType>(i)); type.decodable && type.block > 1)
      types.push_back(type.type);
  return types;
}

QuantizedTensor random_quantized(DType type, int64_t rows, int64_t columns, uint32_t seed = 1) {
  const veery::test::Bytes bytes = random_weight(type, rows, columns, seed);
  return QuantizedTensor::copy(bytes.data(), {rows, columns}, info(type).name);
}

std::string blocks_of(const QuantizedTensor& q) {
  return {static_cast<const char*>(q.blocks()), q.byte_size()};
}

// The largest error, relative to the largest expected number.
double error(const Tensor& found, const Tensor& expected) {
  const Tensor largest = max(abs(expected));
  return max(abs(found - expected) / largest).item<double>();
}

TEST(Quantized, EveryTypeDecodesToItsReference) {
  EXPECT_GE(block_types().size(), 80U);
  for (const DType type : block_types()) {
    const QuantizedTensor q = random_quantized(type, 37, 512);
    std::vector<float> expected(37 * 512);
    decode(type, {static_cast<const std::byte*>(q.blocks()), q.byte_size()}, expected);
    const Tensor x = dequantize(q);
    EXPECT_EQ(x.shape(), (Shape{37, 512}));
    const std::vector<float> found = x.values<float>();
    ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * 4), 0) << q.type();
    for (const Dtype to : {Dtype::kBF16, Dtype::kF16, Dtype::kF64})
      ASSERT_EQ(dequantize(q, to).values<double>(), astype(x, to).values<double>()) << q.type();
  }
}

// Blocks and elements recorded from Python's gguf package.
TEST(Quantized, BlocksOfGgufDecodeAsInPython) {
  const std::string file = read_text(fixture_path("dtype/blocks.bin"));
  int types = 0;
  for (size_t at = 0; at < file.size(); ++types) {
    const std::string type = file.c_str() + at;
    uint32_t sizes[3];  // blocks, bytes and elements of a block
    std::memcpy(sizes, file.data() + at + 8, sizeof sizes);
    const char* blocks = file.data() + at + 20;
    const QuantizedTensor q = QuantizedTensor::copy(blocks, {sizes[0], sizes[2]}, type);
    const std::vector<float> found = dequantize(q).values<float>();
    std::vector<float> expected(found.size());
    std::memcpy(expected.data(), blocks + q.byte_size(), expected.size() * 4);
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << type << " element " << i;
    at += 20 + q.byte_size() + expected.size() * 4;
  }
  EXPECT_EQ(types, 24);
}

// Products have the bits that kernels/cpu/linear.h specifies, for any number of rows.
TEST(Quantized, ProductsHaveTheBitsOfLinear) {
  for (const DType type : veery::test::typical_types()) {
    const QuantizedTensor q = random_quantized(type, 21, 512);
    const Tensor x = numbers({11, 512}, Dtype::kF32, 3);
    const std::vector<float> values = x.values<float>();
    const auto* row = static_cast<const std::byte*>(q.blocks());
    for (const bool exact : {false, true}) {
      const std::vector<float> all = quantized_matmul(x, q, exact).values<float>();
      const std::vector<float> one =
          quantized_matmul(slice(x, {{7, 8, 1}}), q, exact).values<float>();
      for (size_t r = 0; r < 11; ++r) {
        const std::vector<float> own(&values[r * 512], &values[r * 512] + 512);
        for (size_t n = 0; n < 21; ++n) {
          const float expected =
              veery::test::contract(type, row + n * byte_size(type, 512), own, exact);
          ASSERT_EQ(all[r * 21 + n], expected) << q.type() << " exact " << exact << " at " << r;
          if (r == 7) {
            ASSERT_EQ(one[n], expected) << q.type() << " alone";
          }
        }
      }
    }
  }
}

TEST(Quantized, TypesWithoutPanelsAreMultipliedInRows) {
  for (const DType type : {DType::kQ8_1, DType::kQ2_0}) {
    const QuantizedTensor q = quantize(numbers({21, 128}, Dtype::kF32, 4), info(type).name);
    const Tensor x = numbers({5, 128}, Dtype::kF32, 3);
    const Tensor expected = matmul(astype(x, Dtype::kF64), transpose(dequantize(q, Dtype::kF64)));
    EXPECT_LT(error(quantized_matmul(x, q), expected), 1e-6) << q.type();
  }
}

TEST(Quantized, XMayBeAViewOfAnyRankAndType) {
  const QuantizedTensor q = random_quantized(DType::kQ4_K, 33, 256);
  const Tensor x = numbers({2, 256, 3}, Dtype::kF32, 4);
  const Tensor view = transpose(x, {0, 2, 1});
  const Tensor y = quantized_matmul(view, q);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 33}));
  const Tensor rows = reshape(view, {6, 256});
  EXPECT_EQ(y.values<float>(), quantized_matmul(rows, q).values<float>());
  const Tensor vector = reshape(slice(rows, {{4, 5, 1}}), {256});
  EXPECT_EQ(quantized_matmul(vector, q).shape(), Shape{33});
  EXPECT_EQ(quantized_matmul(zeros({0, 256}), q).shape(), (Shape{0, 33}));
  EXPECT_EQ(quantized_matmul(zeros({0, 256}), q).values<float>().size(), 0U);
  for (const Dtype type : {Dtype::kF16, Dtype::kBF16}) {
    const Tensor half = astype(rows, type);
    EXPECT_EQ(quantized_matmul(half, q).dtype(), type);
    EXPECT_EQ(quantized_matmul(half, q).values<float>(),
              astype(quantized_matmul(astype(half, Dtype::kF32), q), type).values<float>());
  }
}

// The rounding of x counts as the identity: derivatives are those of x W^T, W decoded.
TEST(Quantized, DerivativesAreThoseOfTheDecodedWeight) {
  for (const DType type : {DType::kQ4_0, DType::kQ6_K, DType::kIQ2_XXS, DType::kBF16}) {
    const QuantizedTensor q = random_quantized(type, 45, 512);
    const Tensor w = dequantize(q, Dtype::kF64);
    const Tensor x = numbers({7, 512}, Dtype::kF32, 5), dy = numbers({7, 45}, Dtype::kF32, 6);
    const Tensor t = numbers({7, 512}, Dtype::kF32, 7);
    for (const bool exact : {false, true}) {
      const Function fn = [&](std::span<const Tensor> in) {
        return std::vector<Tensor>{quantized_matmul(in[0], q, exact)};
      };
      const Tensor dx = vjp(fn, std::array{x}, std::array{dy}).second[0];
      EXPECT_LT(error(dx, matmul(astype(dy, Dtype::kF64), w)), 1e-6) << q.type();
      EXPECT_EQ(dx.values<float>(), matmul(dy, dequantize(q)).values<float>()) << q.type();
      const Tensor along = jvp(fn, std::array{x}, std::array{t}).second[0];
      EXPECT_LT(error(along, matmul(astype(t, Dtype::kF64), transpose(w))), 1e-6) << q.type();
    }
    // The squared norm of the gradient of |x W^T|^2 is |2 x W^T W|^2.
    const ScalarFunction square_of_gradient = [&](std::span<const Tensor> in) {
      const auto inner = grad([&](std::span<const Tensor> y) {
        return sum(square(quantized_matmul(y[0], q, true)));
      })(in);
      return sum(square(inner[0]));
    };
    const Tensor second = grad(square_of_gradient)(std::array{x})[0];
    const Tensor gram = matmul(transpose(w), w), wide = astype(x, Dtype::kF64);
    const Tensor expected = matmul(matmul(wide, gram), gram) * 8;
    EXPECT_LT(error(second, expected), 1e-5) << q.type();
  }
}

// More rows than a piece that is decoded at a time.
TEST(Quantized, GradientsOfLargeWeightsAreSumsOverPieces) {
  const QuantizedTensor q = random_quantized(DType::kQ8_0, 4500, 512);
  const Tensor dy = numbers({3, 4500}, Dtype::kF32, 6), x = numbers({3, 512}, Dtype::kF32, 7);
  const auto gradients = [&](const Tensor& at, const Tensor& cotangent) {
    return vjp(
               [&](std::span<const Tensor> in) {
                 return std::vector<Tensor>{quantized_matmul(in[0], q)};
               },
               std::array{at}, std::array{cotangent})
        .second[0];
  };
  const Tensor dx = gradients(x, dy);
  const Tensor expected = matmul(astype(dy, Dtype::kF64), dequantize(q, Dtype::kF64));
  EXPECT_LT(error(dx, expected), 1e-6);
  const std::vector<Slice> last{{2, 3, 1}};
  EXPECT_EQ(gradients(slice(x, last), slice(dy, last)).values<float>(),
            slice(dx, last).values<float>())
      << "a row does not depend on the others";
}

TEST(Quantized, EncodersOfGgufAndTheirErrorBound) {
  const Tensor x = numbers({5, 512}, Dtype::kF32, 8);
  const std::map<std::string, double> bounds = {
      {"q4_0", 0.4}, {"q8_0", 0.013}, {"q6_K", 0.06}, {"mxfp8", 0.13}, {"affine8_g64_f32", 0.024}};
  for (const std::string& type : quantizable_types()) {
    const QuantizedTensor q = quantize(reshape(x, {5, 2, 256}), type);
    EXPECT_EQ(q.shape(), (Shape{5, 2, 256}));
    EXPECT_EQ(q.type(), type);
    const double most = max(abs(reshape(dequantize(q), {5, 512}) - x)).item<double>();
    EXPECT_LT(most, bounds.contains(type) ? bounds.at(type) : 3.5) << type;
  }
  // Rows are encoded each by itself, as `veery quantize` does.
  const QuantizedTensor q = quantize(x, "q4_K");
  std::vector<std::byte> expected(byte_size(DType::kQ4_K, 5 * 512));
  encode(DType::kQ4_K, x.values<float>(), expected);
  EXPECT_EQ(std::memcmp(q.blocks(), expected.data(), expected.size()), 0);
}

// Weights and their parts recorded from mlx.core.quantize.
TEST(Quantized, PartsOfMlxHaveItsBits) {
  const TensorMap all = load_safetensors(fixture_path("mlx/quantized.safetensors")).tensors;
  const std::map<std::string, std::string> short_names = {
      {"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
  int checked = 0;
  for (const auto& [name, codes] : all) {
    if (!name.ends_with("/codes")) continue;
    const std::string base = name.substr(0, name.size() - 5), of = base.substr(0, base.find('/'));
    char mode[16];
    int bits = 0, group = 0;
    ASSERT_EQ(std::sscanf(base.c_str() + of.size() + 1, "%15[a-z0-9]/%d/%d", mode, &bits, &group),
              3);
    const bool affine = std::string(mode) == "affine";
    std::optional<Tensor> biases;
    if (affine) biases = all.at(base + "biases");
    const QuantizedTensor q =
        QuantizedTensor::of_mlx(codes, all.at(base + "scales"), biases, group, bits, mode);
    EXPECT_EQ(q.shape(), (Shape{10, 128})) << name;
    const Tensor& x = all.at(of);
    // The largest scale of nvfp4 is 448, its largest code 6.
    const double limit = std::string(mode) == "nvfp4" ? 448 * 6 : HUGE_VAL;
    const Tensor limited = clip(astype(x, Dtype::kF32), -limit, limit);
    const double most = max(abs(dequantize(q) - limited)).item<double>();
    EXPECT_LT(most, max(abs(limited)).item<double>() / (bits < 4 ? 1.5 : 4)) << name;
    if (!affine && (std::string(mode) != "mxfp8" || of != "float32")) continue;
    const std::string type =
        affine ? fmt::format("affine{}_g{}_{}", bits, group, short_names.at(of)) : "mxfp8";
    EXPECT_EQ(q.type(), type);
    EXPECT_EQ(blocks_of(quantize(x, type)), blocks_of(q)) << name;
    ++checked;
  }
  EXPECT_EQ(checked, 19);
}

TEST(Quantized, MatricesOfAStackShareItsBlocks) {
  const Tensor x = numbers({3, 20, 64}, Dtype::kF32, 9);
  const QuantizedTensor q = quantize(x, "q5_0"), second = q.at(-2);
  EXPECT_EQ(second.shape(), (Shape{20, 64}));
  EXPECT_EQ(static_cast<const char*>(second.blocks()),
            static_cast<const char*>(q.blocks()) + q.byte_size() / 3);
  EXPECT_EQ(dequantize(second).values<float>(), slice(dequantize(q), {{1, 2, 1}}).values<float>());
  EXPECT_EQ(q.at(0).at(3).shape(), Shape{64});
  VEERY_EXPECT_ERROR(kInput, q.at(3), "index 3", "[3, 20, 64]");
}

TEST(Quantized, IsPackedOnceAndReleased) {
  clear_cache();
  const size_t before = memory_use().active;
  {
    const QuantizedTensor q = random_quantized(DType::kQ4_0, 512, 1024);
    const Tensor x = ones({1, 1024});
    quantized_matmul(x, q).eval();
    const size_t packed = memory_use().active;
    EXPECT_GE(packed, before + 2 * q.byte_size());
    for (int i = 0; i < 3; ++i) quantized_matmul(x, q).eval();
    EXPECT_LE(memory_use().active, packed + 4096);
  }
  EXPECT_EQ(memory_use().active, before);
}

TEST(Quantized, BorrowedBlocksAreReleased) {
  const veery::test::Bytes bytes = random_weight(DType::kQ8_0, 4, 64, 1);
  int released = 0;
  {
    const Tensor x = dequantize(
        QuantizedTensor::borrow(bytes.data(), {4, 64}, "q8_0", [&released] { ++released; }));
    EXPECT_EQ(released, 0);
    x.eval();
  }
  EXPECT_EQ(released, 1);
}

TEST(Quantized, WrongBlocksAreNamed) {
  const veery::test::Bytes bytes = random_weight(DType::kQ4_K, 2, 256, 1);
  const auto copy = [&](const Shape& shape, const char* type) {
    return QuantizedTensor::copy(bytes.data(), shape, type);
  };
  VEERY_EXPECT_ERROR(kInput, copy({2, 255}, "q4_K"), "[2, 255]", "256", "q4_K");
  VEERY_EXPECT_ERROR(kInput, copy({}, "q4_K"), "[]");
  VEERY_EXPECT_ERROR(kInput, copy({-1, 256}, "q4_K"), "[-1, 256]");
  VEERY_EXPECT_ERROR(kUnsupported, copy({2, 256}, "q4_X"), "'q4_X'");
  VEERY_EXPECT_ERROR(kUnsupported, copy({2, 256}, "i16"), "i16");
  EXPECT_EQ(copy({2, 256}, "Q4_K").type(), "q4_K");
}

TEST(Quantized, WrongOperandsAreNamed) {
  const QuantizedTensor q = random_quantized(DType::kQ4_K, 2, 256);
  VEERY_EXPECT_ERROR(kInput, quantized_matmul(ones({3, 128}), q), "[3, 128]", "[2, 256]");
  VEERY_EXPECT_ERROR(kUnsupported, quantized_matmul(ones({256}, Dtype::kF64), q), "f64");
  VEERY_EXPECT_ERROR(kInput, quantized_matmul(ones({256}), {}), "no quantised tensor");
  VEERY_EXPECT_ERROR(kInput, dequantize(q, Dtype::kI32), "i32");
  VEERY_EXPECT_ERROR(kInput, quantize(ones({2, 100}), "q8_0"), "[2, 100]", "32");
  VEERY_EXPECT_ERROR(kInput, quantize(full({2, 64}, NAN), "q8_0"), "nan");
  VEERY_EXPECT_ERROR(kInput, quantize(full({2, 64}, NAN), "affine4_g64_f32"), "nan");
  VEERY_EXPECT_ERROR(kInput, quantize(ones({2, 64}, Dtype::kI32), "q8_0"), "i32");
  VEERY_EXPECT_ERROR(kUnsupported, quantize(ones({2, 64}), "fp8_32"), "fp8_32");
  VEERY_EXPECT_ERROR(kUnsupported, quantize(ones({2, 64}), "bf16"), "astype");
}

TEST(Quantized, WrongPartsOfMlxAreNamed) {
  const Tensor codes = zeros({2, 8}, Dtype::kU32), scales = ones({2, 1});
  const auto join = [&](const Tensor& of, int group, int bits, const char* mode) {
    return QuantizedTensor::of_mlx(codes, of, scales, group, bits, mode);
  };
  EXPECT_EQ(join(scales, 64, 4, "affine").shape(), (Shape{2, 64}));
  VEERY_EXPECT_ERROR(kInput, join(ones({2, 2}), 64, 4, "affine"), "scales are 2 x 2");
  VEERY_EXPECT_ERROR(kUnsupported, join(scales, 64, 7, "affine"), "7 bits");
  VEERY_EXPECT_ERROR(kUnsupported, join(scales, 64, 4, "other"), "'other'");
  VEERY_EXPECT_ERROR(kInput, join(zeros({2, 1}, Dtype::kI64), 64, 4, "affine"), "i64");
}

TEST(Quantized, ScalesThatAreNotFiniteAreRefusedByProducts) {
  veery::test::Bytes bytes = random_weight(DType::kQ8_0, 40, 64, 1);
  bytes[byte_size(DType::kQ8_0, 64) * 35 + 1] = std::byte{0x7c};
  const QuantizedTensor q = QuantizedTensor::copy(bytes.data(), {40, 64}, "q8_0");
  VEERY_EXPECT_ERROR(kFormat, quantized_matmul(ones({64}), q).eval(), "q8_0", "block 70");
}

TEST(GgufFiles, HaveTensorsAndQuantisedOnes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.gguf");
  const veery::test::Bytes q4 = random_weight(DType::kQ4_K, 3, 512, 1);
  const veery::test::Bytes q2 = random_weight(DType::kQ2_0, 5, 128, 2);
  const std::vector<float> norm{1, 2, 3, -4};
  const std::vector<int32_t> ids{7, -8};
  Metadata metadata;
  metadata.set("general.name", "small");
  metadata.set("a.number", 2.5);
  metadata.set("a.count", uint64_t{3});
  metadata.set_texts("a.texts", {"x", "y"});
  veery::test::write_gguf(
      path, metadata,
      std::vector<TensorView>{{"w", DType::kQ4_K, {3, 512}, q4},
                              {"t", DType::kQ2_0, {5, 128}, q2},
                              {"n", DType::kF32, {2, 2}, std::as_bytes(std::span(norm))},
                              {"i", DType::kI32, {2}, std::as_bytes(std::span(ids))}});
  QuantizedTensor w;
  {
    const size_t before = memory_use().active;
    const Gguf file = load_gguf(path);
    w = file.quantized.at("w");
    EXPECT_EQ(file.quantized.size(), 2U);
    EXPECT_LT(memory_use().active - before, 4096U) << "blocks stay in the file";
    EXPECT_EQ(file.tensors.at("n").values<float>(), norm);
    EXPECT_EQ(file.tensors.at("n").shape(), (Shape{2, 2}));
    EXPECT_EQ(file.tensors.at("i").values<int32_t>(), ids);
    EXPECT_EQ(std::get<std::string>(file.metadata.at("general.name")), "small");
    EXPECT_EQ(std::get<double>(file.metadata.at("a.number")), 2.5);
    EXPECT_EQ(std::get<std::vector<std::string>>(file.metadata.at("a.texts")),
              (std::vector<std::string>{"x", "y"}));
    std::vector<float> expected(5 * 128);
    decode(DType::kQ2_0, q2, expected);
    EXPECT_EQ(dequantize(file.quantized.at("t")).values<float>(), expected);
    file.file.check_unchanged();
  }
  std::filesystem::remove(path);
  EXPECT_EQ(w.type(), "q4_K");
  EXPECT_EQ(std::memcmp(w.blocks(), q4.data(), q4.size()), 0);
  std::vector<float> expected(3 * 512);
  decode(DType::kQ4_K, q4, expected);
  EXPECT_EQ(dequantize(w).values<float>(), expected);
}

TEST(GgufFiles, OtherTypesAndOtherFilesAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.gguf");
  const std::vector<int16_t> values{1, 2};
  veery::test::write_gguf(
      path, Metadata(),
      std::vector<TensorView>{{"s", DType::kI16, {2}, std::as_bytes(std::span(values))}});
  VEERY_EXPECT_ERROR(kUnsupported, load_gguf(path), "'s'", "i16", path);
  folder.write("b.gguf", read_text(path).substr(0, 40));
  VEERY_EXPECT_ERROR(kFormat, load_gguf(folder.file("b.gguf")), "b.gguf");
  VEERY_EXPECT_ERROR(kNotFound, load_gguf(folder.file("c.gguf")), "c.gguf");
}

}  // namespace
}  // namespace veery::tensor

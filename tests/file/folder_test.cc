// Tests of folders with config.json and safetensors: which files are read, separate scales, and
// folders with one fault each.
#include "file/folder/folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "file/folder/row_sources.h"
#include "file/folder/safetensors.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

using test::TemporaryFolder;

// Writes a file of f32 tensors with one element each.
void write_shard(const TemporaryFolder& folder, const std::string& name,
                 const std::vector<std::pair<std::string, float>>& values) {
  std::vector<StoredTensor> tensors;
  for (const auto& [tensor, value] : values)
    tensors.push_back(
        {tensor, StoredType::kF32, {1}, std::as_bytes(std::span<const float>(&value, 1))});
  test::write_safetensors(folder.file(name), tensors);
}

float value_of(const ModelFile& file, const std::string& name) {
  float value = 0;
  std::memcpy(&value, file.at(name).data.data(), sizeof value);
  return value;
}

Error error_of(const TemporaryFolder& folder) {
  try {
    open_folder(folder.path());
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kBug, "nothing was thrown");
}

void expect_error(const TemporaryFolder& folder, ErrorKind kind,
                  const std::vector<std::string>& words) {
  const Error error = error_of(folder);
  const std::string message = error.what();
  EXPECT_EQ(error.kind(), kind) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' in: " << message;
}

constexpr const char* kIndex = "model.safetensors.index.json";

TEST(Folder, ReadsTheFilesOfTheIndex) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  write_shard(folder, "one.safetensors", {{"a", 1}, {"b", 2}});
  write_shard(folder, "two.safetensors", {{"c", 3}, {"a", 9}});
  write_shard(folder, "other.safetensors", {{"d", 4}});
  folder.write(kIndex, R"({"metadata":{},"weight_map":{"a":"one.safetensors","b":"one.safetensors",
                          "c":"two.safetensors"}})");
  const ModelFile file = open_folder(folder.path());
  EXPECT_EQ(file.container, Container::kFolder);
  EXPECT_EQ(file.tensors.size(), 3U);
  EXPECT_EQ(value_of(file, "a"), 1);
  EXPECT_EQ(value_of(file, "c"), 3);
}

TEST(Folder, ReadsAllFilesExceptDuplicatesWithoutAnIndex) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  write_shard(folder, "model-00002-of-00002.safetensors", {{"b", 2}});
  write_shard(folder, "model-00001-of-00002.safetensors", {{"a", 1}});
  write_shard(folder, "consolidated.safetensors", {{"a", 7}});
  write_shard(folder, "adapter_model.safetensors", {{"b", 8}});
  const ModelFile file = open_folder(folder.path());
  EXPECT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(value_of(file, "a"), 1);
  EXPECT_EQ(value_of(file, "b"), 2);
  write_shard(folder, "model.safetensors", {{"a", 5}});
  EXPECT_EQ(value_of(open_folder(folder.path()), "a"), 5);
}

TEST(Folder, ErrorsNameMissingFilesAndTensors) {
  const TemporaryFolder folder;
  expect_error(folder, ErrorKind::kNotFound, {"config.json"});
  folder.write("config.json", "{}");
  expect_error(folder, ErrorKind::kNotFound, {folder.path(), "has no *.safetensors"});
  folder.write(kIndex, R"({"weight_map":{"a":"one.safetensors"}})");
  expect_error(folder, ErrorKind::kNotFound, {"one.safetensors"});
  write_shard(folder, "one.safetensors", {{"b", 1}});
  expect_error(folder, ErrorKind::kFormat, {"one.safetensors", "missing tensor 'a'", kIndex});
}

TEST(Folder, RejectsIndexEntriesOutsideTheFolder) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  write_shard(folder, "a.safetensors", {{"a", 1}});
  for (const char* name :
       {"../a.safetensors", "/etc/passwd", "..", "", ".hidden", "x/a.safetensors", "a\\\\b"}) {
    folder.write(kIndex, std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    expect_error(folder, ErrorKind::kFormat, {"tensor 'a'", "expected a name in the folder"});
  }
}

TEST(Folder, RejectsInvalidJson) {
  const TemporaryFolder folder;
  write_shard(folder, "weights.safetensors", {{"a", 1}});
  folder.write("config.json", "");
  expect_error(folder, ErrorKind::kFormat, {"config.json", "expected a value, found the end"});
  folder.write("config.json", "[1]");
  expect_error(folder, ErrorKind::kFormat, {"config.json", "is a JSON array"});
  folder.write("config.json", std::string(100000, '['));
  expect_error(folder, ErrorKind::kFormat, {"config.json", "levels deep"});
  folder.write("config.json", std::string((16 << 20) + 1, ' '));
  expect_error(folder, ErrorKind::kLimit, {"16777217 bytes"});
  folder.write("config.json", R"({"quantization_config":{"quant_method":"gptq"}})");
  expect_error(folder, ErrorKind::kUnsupported, {"quant_method is 'gptq'"});
  folder.write("config.json", "{}");
  for (const char* index : {"{}", R"({"weight_map":{}})", R"({"weight_map":[]})"}) {
    folder.write(kIndex, index);
    expect_error(folder, ErrorKind::kFormat, {"no weight_map"});
  }
  folder.write(kIndex, R"({"weight_map":{"a":1}})");
  expect_error(folder, ErrorKind::kFormat, {"file of tensor 'a' is not a string"});
}

TEST(Folder, IgnoresAnIndexNextToTheSingleFile) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  write_shard(folder, "model.safetensors", {{"a", 1}});
  write_shard(folder, "model-00001-of-00001.safetensors", {{"a", 2}, {"b", 3}});
  folder.write(kIndex, R"({"weight_map":{"a":"model-00001-of-00001.safetensors",
                           "b":"model-00001-of-00001.safetensors","c":"gone.safetensors"}})");
  const ModelFile file = open_folder(folder.path());
  EXPECT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(value_of(file, "a"), 1);
}

TEST(Folder, RejectsATensorInTwoFiles) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  write_shard(folder, "x.safetensors", {{"a", 1}});
  write_shard(folder, "y.safetensors", {{"a", 1}});
  expect_error(folder, ErrorKind::kFormat, {"y.safetensors", "'a' also appears in another file"});
}

TEST(Folder, CopiesMisalignedTensors) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  std::string header = R"({"n":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[3,19]}})";
  while (header.size() % 4 != 0) header += ' ';
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header + "abc";
  const float values[] = {1, 2, 3, 4};
  bytes.append(reinterpret_cast<const char*>(values), sizeof values);
  folder.write("model.safetensors", bytes);
  const ModelFile file = open_folder(folder.path());
  ASSERT_EQ(file.tensors.size(), 1U);
  const TensorView& w = file.at("w");
  ASSERT_NE(w.source, nullptr);
  std::vector<float> row(2);
  w.source->read(1, 2, reinterpret_cast<std::byte*>(row.data()));
  EXPECT_EQ(row, (std::vector<float>{3, 4}));
  std::vector<std::byte> buffer;
  EXPECT_EQ(w.read(buffer).size(), 16U);
}

TEST(Fp8, DecodesEveryValueAccordingToTheFormula) {
  EXPECT_EQ(fp8_e4m3_to_f32(0x38), 1);
  EXPECT_EQ(fp8_e4m3_to_f32(0x7E), 448);
  EXPECT_EQ(fp8_e4m3_to_f32(0xFE), -448);
  EXPECT_EQ(fp8_e4m3_to_f32(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(fp8_e4m3_to_f32(0x08), std::ldexp(1.0F, -6));
  EXPECT_TRUE(std::isnan(fp8_e4m3_to_f32(0x7F)));
  EXPECT_EQ(fp8_e5m2_to_f32(0x3C), 1);
  EXPECT_EQ(fp8_e5m2_to_f32(0x7B), 57344);
  EXPECT_EQ(fp8_e5m2_to_f32(0x81), -std::ldexp(1.0F, -16));
  EXPECT_TRUE(std::isinf(fp8_e5m2_to_f32(0x7C)));
}

struct Fp8Case {
  const char* name;
  const char* suffix;
  std::vector<int64_t> scale_shape;
  const char* config;
  int64_t block_rows, block_cols;  ///< 0: rejected
};

// 5 x 6 values of 2 and scales 1, 2, 3 ...: each product identifies the scale that was used.
TEST(Fp8, ScalesApplyToTheirBlocks) {
  const std::vector<Fp8Case> cases{
      {"one number", "_scale", {}, "{}", 5, 6},
      {"one number in a row", "_scale", {1}, "{}", 5, 6},
      {"rows", "_scale", {5}, "{}", 1, 6},
      {"a column", "_scale", {5, 1}, "{}", 1, 6},
      {"blocks by shape", "_scale_inv", {3, 2}, "{}", 2, 3},
      {"blocks by configuration",
       "_scale_inv",
       {2, 2},
       R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[4,4]}})",
       4,
       4},
      {"blocks that do not fit the configuration",
       "_scale_inv",
       {2, 2},
       R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[2,4]}})",
       0,
       0},
      {"too many rows", "_scale", {6}, "{}", 0, 0},
      {"three dimensions", "_scale", {1, 1, 1}, "{}", 0, 0},
  };
  for (const Fp8Case& c : cases) {
    const TemporaryFolder folder;
    folder.write("config.json", c.config);
    const std::vector<uint8_t> values(30, 0x40);  // e4m3 code of 2
    const int64_t count = std::accumulate(c.scale_shape.begin(), c.scale_shape.end(), int64_t{1},
                                          std::multiplies<>());
    std::vector<float> scales(static_cast<size_t>(count));
    std::iota(scales.begin(), scales.end(), 1.0F);
    const std::vector<StoredTensor> tensors{
        {"w.weight", StoredType::kF8_E4M3, {5, 6}, std::as_bytes(std::span(values))},
        {std::string("w.weight") + c.suffix, StoredType::kF32, c.scale_shape,
         std::as_bytes(std::span(scales))}};
    test::write_safetensors(folder.file("model.safetensors"), tensors);
    if (c.block_rows == 0) {
      expect_error(folder, ErrorKind::kFormat, {"w.weight", "does not fit the scales"});
      continue;
    }
    const ModelFile file = open_folder(folder.path());
    const TensorView& w = file.at("w.weight");
    EXPECT_EQ(w.dtype, DType::kF32);
    std::vector<std::byte> buffer;
    const std::span<const std::byte> bytes = w.read(buffer);
    ASSERT_EQ(bytes.size(), 30 * sizeof(float));
    const int64_t across = (6 + c.block_cols - 1) / c.block_cols;
    for (int64_t i = 0; i < 30; ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof value, sizeof value);
      const int64_t block = i / 6 / c.block_rows * across + i % 6 / c.block_cols;
      EXPECT_EQ(value, 2 * static_cast<float>(block + 1)) << c.name << " " << i;
    }
  }
}

// Values keep 8 bits if rows are whole blocks of 128 or 32 with one scale each.
TEST(Fp8, TypeDependsOnWidthAndScales) {
  struct Case {
    int64_t rows, cols;
    std::vector<int64_t> scale_shape;
    int block_rows, block_cols;  ///< from the configuration; 0: none
    float first_scale;
    DType expected;
  };
  const std::vector<Case> cases{
      {5, 256, {}, 0, 0, 1, DType::kFP8_128},       {5, 256, {5, 1}, 0, 0, 1, DType::kFP8_128},
      {5, 256, {2, 2}, 4, 128, 1, DType::kFP8_128}, {5, 160, {2, 2}, 4, 128, 1, DType::kFP8_32},
      {5, 128, {3, 4}, 2, 32, 1, DType::kFP8_32},   {5, 96, {5}, 0, 0, -127, DType::kFP8_32},
      {5, 256, {5}, 0, 0, 128, DType::kF32},        {5, 128, {3, 8}, 2, 16, 1, DType::kF32},
      {5, 100, {5}, 0, 0, 1, DType::kF32}};
  for (const Case& c : cases) {
    const TemporaryFolder folder;
    folder.write("config.json",
                 c.block_rows == 0
                     ? "{}"
                     : fmt::format(R"({{"quantization_config":{{"weight_block_size":[{},{}]}}}})",
                                   c.block_rows, c.block_cols));
    std::vector<uint8_t> values(static_cast<size_t>(c.rows * c.cols));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 37 % 127);
    const int64_t count = std::accumulate(c.scale_shape.begin(), c.scale_shape.end(), int64_t{1},
                                          std::multiplies<>());
    std::vector<float> scales(static_cast<size_t>(count));
    std::iota(scales.begin(), scales.end(), c.first_scale);
    const std::vector<StoredTensor> tensors{
        {"w.weight", StoredType::kF8_E4M3, {c.rows, c.cols}, std::as_bytes(std::span(values))},
        {"w.weight_scale", StoredType::kF32, c.scale_shape, std::as_bytes(std::span(scales))}};
    test::write_safetensors(folder.file("model.safetensors"), tensors);
    const ModelFile file = open_folder(folder.path());
    const TensorView& w = file.at("w.weight");
    EXPECT_EQ(w.dtype, c.expected) << info(w.dtype).name;
    std::vector<std::byte> buffer;
    std::vector<float> decoded(values.size());
    decode(w.dtype, w.read(buffer), decoded);
    const int64_t across = c.scale_shape.size() < 2 ? 1 : c.scale_shape[1];
    const int64_t rows = count == 1 ? c.rows : c.block_rows == 0 ? 1 : c.block_rows;
    const int64_t cols = across == 1 ? c.cols : c.block_cols;
    for (int64_t i = 0; i < c.rows * c.cols; ++i) {
      const int64_t block = i / c.cols / rows * across + i % c.cols / cols;
      EXPECT_EQ(decoded[static_cast<size_t>(i)], fp8_e4m3_to_f32(values[static_cast<size_t>(i)]) *
                                                     scales[static_cast<size_t>(block)]);
    }
  }
}

TEST(RowSources, PartsAndSumsReadTheirRows) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  const TensorView matrix{"m", DType::kF32, {4, 2}, std::as_bytes(std::span(values))};
  std::vector<float> out(4);
  const auto read = [&](const TensorView& tensor) {
    std::vector<std::byte> buffer;
    const std::span<const std::byte> bytes = tensor.read(buffer);
    out.resize(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  };
  EXPECT_EQ(read(slice_rows(matrix, "p", 1, 3)), (std::vector<float>{3, 4, 5, 6}));
  TensorView made = matrix;
  made.source = make_sum(matrix, 1);
  made.data = {};
  EXPECT_EQ(read(slice_rows(made, "p", 1, 3)), (std::vector<float>{4, 5, 6, 7}));
  const TensorView row{"r", DType::kF32, {8}, std::as_bytes(std::span(values))};
  EXPECT_EQ(read(slice_rows(row, "p", 2, 4)), (std::vector<float>{3, 4}));
  TensorView made_row = row;
  made_row.source = make_sum(row, 1);
  made_row.data = {};
  EXPECT_EQ(read(slice_rows(made_row, "p", 2, 4)), (std::vector<float>{4, 5}));
}

}  // namespace
}  // namespace veery

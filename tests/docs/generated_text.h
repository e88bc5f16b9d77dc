// generated_text.h: parts of files in the repository that tests generate and check.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace veery::test {

inline std::string read_source(const std::string& path) {
  std::ifstream file(std::string(VEERY_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Expects that `generated` stands between `begin` and `end` in the file at `path`, relative to the
/// repository. Writes it there first if the environment variable VEERY_WRITE_DOCS is set.
inline void expect_generated(const std::string& path, const std::string& begin,
                             const std::string& end, const std::string& generated) {
  std::string text = read_source(path);
  const size_t first = text.find(begin);
  ASSERT_NE(first, std::string::npos) << path << ": " << begin;
  const size_t from = first + begin.size(), to = text.find(end, from);
  ASSERT_NE(to, std::string::npos) << path << ": " << end;
  if (std::getenv("VEERY_WRITE_DOCS") != nullptr) {
    text.replace(from, to - from, generated);
    std::ofstream(std::string(VEERY_SOURCE_DIR) + "/" + path) << text;
    return;
  }
  EXPECT_EQ(text.substr(from, to - from), generated)
      << path << " is out of date: run this test with VEERY_WRITE_DOCS=1";
}

}  // namespace veery::test

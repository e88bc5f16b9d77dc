#include "cli/output/version.h"

#include <fmt/format.h>

#include "commit.h"  // made by each build: cmake/WriteCommit.cmake
#include "kernels/compiled_targets.h"

namespace veery::cli {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

std::string names_of(const std::vector<Target>& targets) {
  std::string text;
  for (const Target target : targets)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name(target));
  return text;
}

}  // namespace

std::string_view version() { return VEERY_VERSION; }

std::string version_text() {
  const std::vector<Target> found = supported_targets();
  return fmt::format(
      "veery {}\n  commit        {}\n  compiler      {}\n  kernels for   {}\n  on this CPU   {}\n",
      VEERY_VERSION, VEERY_COMMIT, kCompiler, names_of(compiled_targets()), names_of(found));
}

}  // namespace veery::cli

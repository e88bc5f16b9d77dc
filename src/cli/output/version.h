// version.h: version, commit and build of the program.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// Returns a version such as "0.1.0".
std::string_view version();

/// Returns version, commit, compiler and instruction sets. The first line is "veery VERSION".
std::string version_text();

}  // namespace veery::cli

// version.h: what `veery --version` prints.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// "0.1.0"
std::string_view version();

/// Version, commit, compiler and instruction sets; the first line is "veery" and the version alone.
std::string version_text();

}  // namespace veery::cli

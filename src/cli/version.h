// version.h: what `veery --version` prints.
#pragma once
#include <string>

namespace veery::cli {

/// Version, commit, compiler and instruction sets; the first line is "veery" and the version alone.
std::string version_text();

}  // namespace veery::cli

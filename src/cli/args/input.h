// input.h: texts read from files and from standard input.
#pragma once
#include <string>

#include "base/untrusted_file.h"

namespace veery::cli {

/// Returns the whole file or stream; "-" is standard input. Throws kNotFound, kIo or kLimit.
std::string read_file(const std::string& path, const FileKind& kind = kTextFile);
std::string read_standard_input(const FileKind& kind = kTextFile);

/// Returns whether standard input is a file, or a pipe or socket that delivers data or ends within
/// a few seconds; reports one that does neither on standard error. Terminals and other devices
/// (/dev/null) are not input.
bool input_is_piped();

}  // namespace veery::cli

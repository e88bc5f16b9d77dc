// text_lines.h: files with one JSON string per line.
#pragma once
#include <string>
#include <vector>

namespace veery::cli {

/// Returns the texts of a file with one JSON string per line; "-" is standard input. Empty lines
/// are skipped. Throws kFormat naming file and line for any other value, or if there are no texts.
std::vector<std::string> read_text_lines(const std::string& path);

}  // namespace veery::cli

// text_lines.h: files of many texts.
#pragma once
#include <string>
#include <vector>

namespace veery::cli {

/// The texts of a file with a JSON string a line; "-": standard input. Lines that are empty are
/// passed over. Throws kFormat naming file and line where there is anything else.
std::vector<std::string> read_text_lines(const std::string& path);

}  // namespace veery::cli

#include "cli/args/text_lines.h"

#include "base/error.h"
#include "base/json.h"
#include "cli/args/input.h"

namespace veery::cli {

std::vector<std::string> read_text_lines(const std::string& path) {
  const std::string file = read_file(path);
  const std::string name = path == "-" ? "standard input" : path;
  std::vector<std::string> texts;
  size_t number = 0;
  for (size_t begin = 0; begin < file.size();) {
    const size_t end = std::min(file.find('\n', begin), file.size());
    const std::string line = file.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}, line {}", name, number);
    const Json value = parse_json(line, where);
    if (!value.is_string())
      throw Error(ErrorKind::kFormat, "{}: found a JSON {}, expected a string", where,
                  value.type_name());
    texts.push_back(value.get<std::string>());
  }
  if (texts.empty())
    throw Error(ErrorKind::kFormat, "{}: found no text, expected one JSON string per line", name);
  return texts;
}

}  // namespace veery::cli

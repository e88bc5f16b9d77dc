#include "cli/args/help_text.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "cli/output/output.h"

namespace veery::cli {
namespace {

constexpr size_t kWidth = 80;  // columns
constexpr std::string_view kExample = "Example:";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Whether the line has a description, which may continue in the next line. A single space may
// separate the names of an option from it.
bool describes(std::string_view line) {
  return line.size() > kHelpColumn && line.starts_with("  ") && line[kHelpColumn] != ' ' &&
         line[kHelpColumn - 1] == ' ' && (line[kHelpColumn - 2] == ' ' || line[2] == '-');
}

// Appends `words`, starting at column `at` of the last line; further lines start at `indent`.
void append(std::string& out, std::string_view words, size_t at, size_t indent,
            size_t width = kWidth) {
  bool first = true;
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    if (!first && at + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!first) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
    first = false;
    begin = end + 1;
  }
  out += '\n';
}

// Appends the lines unchanged if they begin with "Example:". Returns whether they do.
bool append_example(std::string& out, std::span<const std::string> lines) {
  if (lines.front() != kExample) return false;
  for (const std::string& line : lines) out += line + "\n";
  return true;
}

// Returns the column of a line's description; its indent if it has none.
size_t description_of(std::string_view line) {
  if (describes(line)) return kHelpColumn;
  const size_t indent = indent_of(line);
  const size_t gap = line.find("  ", indent);
  return gap == std::string_view::npos ? indent : gap + indent_of(line.substr(gap));
}

}  // namespace

std::string fit_help(std::string_view text) {
  std::string out;
  const std::vector<std::string> lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (append_example(out, std::span(lines).subspan(i))) break;
    const bool described = describes(lines[i]);
    const size_t indent = described ? kHelpColumn : 0;
    if (!described && (indent_of(lines[i]) > 0 || lines[i].empty())) {
      out += lines[i] + "\n";
      continue;
    }
    out += lines[i].substr(0, indent);
    std::string words = lines[i].substr(indent);
    const auto goes_on = [&](const std::string& line) {
      return !line.empty() && indent_of(line) == indent && line != kExample;
    };
    while (i + 1 < lines.size() && goes_on(lines[i + 1])) words += " " + lines[++i].substr(indent);
    append(out, words, indent, indent);
  }
  return out;
}

std::string narrowed(std::string_view text, int columns) {
  constexpr size_t kLeast = 20, kBelow = 6;  // columns of a description, its indent below a name
  const auto width = static_cast<size_t>(columns);
  std::string out;
  const std::vector<std::string> lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (append_example(out, std::span(lines).subspan(i))) break;
    const size_t column = description_of(lines[i]);
    const bool named = indent_of(lines[i]) < column, blank = lines[i].empty();
    const auto goes_on = [&](size_t next) {
      if (blank || next >= lines.size() || lines[next].empty() || lines[next] == kExample)
        return false;
      const bool paragraph = column == 0 && description_of(lines[next]) == 0;
      return paragraph || (named && indent_of(lines[next]) == column);
    };
    if (lines[i].size() <= width && !goes_on(i + 1)) {
      out += lines[i] + "\n";
      continue;
    }
    std::string head = lines[i].substr(0, column), words = lines[i].substr(column);
    while (goes_on(i + 1)) words += " " + lines[++i].substr(column);
    const bool beside = column + kLeast <= width;
    if (!beside) head.resize(head.find_last_not_of(' ') + 1);
    if (!beside && !head.empty()) head += "\n";
    const size_t indent = beside ? column : kBelow;
    out += beside ? head : head + std::string(indent, ' ');
    append(out, words, indent, indent, width);
  }
  return out;
}

std::string help_for(const std::string& text, int descriptor) {
  const int columns = terminal_columns(descriptor);
  return columns < static_cast<int>(kWidth) ? narrowed(text, columns) : text;
}

}  // namespace veery::cli

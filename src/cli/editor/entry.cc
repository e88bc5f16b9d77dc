#include "cli/editor/entry.h"

namespace veery::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

int count_quotes(std::string_view text) {
  int count = 0;
  for (size_t at = text.find(kQuotes); at != std::string_view::npos;
       at = text.find(kQuotes, at + kQuotes.size()))
    ++count;
  return count;
}

bool is_one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

}  // namespace

bool goes_on(std::string& entry) {
  if (entry.starts_with(kQuotes) && count_quotes(entry) == 1) {
    entry += '\n';
    return true;
  }
  if (!entry.ends_with('\\')) return false;
  entry.back() = '\n';
  return true;
}

bool is_command(std::string_view entry) {
  return entry.starts_with('/') && !entry.starts_with("//") && is_one_line(entry);
}

std::string message_of(std::string_view entry) {
  const bool quoted = entry.starts_with(kQuotes) && entry.ends_with(kQuotes);
  if (quoted && count_quotes(entry) == 2) {
    entry = entry.substr(kQuotes.size(), entry.size() - 2 * kQuotes.size());
    if (entry.starts_with('\n')) entry.remove_prefix(1);
    if (entry.ends_with('\n')) entry.remove_suffix(1);
  } else if (is_one_line(entry) && (entry.starts_with("//") || entry.starts_with(" /"))) {
    entry.remove_prefix(1);
  }
  return std::string(entry);
}

}  // namespace veery::cli

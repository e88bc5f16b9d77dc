#include "text/format/world_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/vocabulary.h"

namespace veery {
namespace {

constexpr size_t kMostTokens = size_t{1} << 22;

template <typename Number>
std::optional<Number> number_of(std::string_view digits, int base) {
  Number value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, base);
  return error == std::errc() && at == end && !digits.empty() ? std::optional(value) : std::nullopt;
}

// Returns the bytes of 'text', "text" or b'bytes', or nullopt for other text.
std::optional<std::string> bytes_of(std::string_view literal) {
  const bool raw = literal.starts_with('b');
  if (raw) literal.remove_prefix(1);
  if (literal.size() < 2 || literal[0] != literal.back() ||
      (literal[0] != '\'' && literal[0] != '"'))
    return std::nullopt;
  literal = literal.substr(1, literal.size() - 2);
  std::string bytes;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\') {
      bytes.push_back(literal[i]);
      continue;
    }
    if (++i == literal.size()) return std::nullopt;
    constexpr std::pair<char, char> kKinds[] = {{'n', '\n'},  {'r', '\r'},  {'t', '\t'},
                                                {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};
    const auto kind = std::ranges::find(kKinds, literal[i], &std::pair<char, char>::first);
    if (kind != std::end(kKinds)) {
      bytes.push_back(kind->second);
      continue;
    }
    const size_t digits = literal[i] == 'x'   ? 2
                          : raw               ? 0
                          : literal[i] == 'u' ? 4
                          : literal[i] == 'U' ? 8
                                              : 0;
    const auto value = number_of<uint32_t>(literal.substr(i + 1, digits), 16);
    if (digits == 0 || literal.size() - i - 1 < digits || !value || *value > 0x10FFFF)
      return std::nullopt;
    if (raw)
      bytes.push_back(static_cast<char>(*value));
    else
      append_utf8(bytes, static_cast<char32_t>(*value));
    i += digits;
  }
  return bytes;
}

std::string with_escapes(std::string_view bytes) {
  std::string written;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\')
      written += "\\\\";
    else if (byte >= 0x20 && byte < 0x7F)
      written.push_back(c);
    else
      written += fmt::format("\\x{:02x}", byte);
  }
  return written;
}

}  // namespace

bool is_world_vocabulary(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || !number_of<uint32_t>(text.substr(0, space), 10))
    return false;
  const std::string_view rest = text.substr(space + 1);
  return rest.starts_with('\'') || rest.starts_with('"') || rest.starts_with("b'") ||
         rest.starts_with("b\"");
}

WorldVocabulary read_world_vocabulary(std::string_view text, const std::string& what) {
  WorldVocabulary vocabulary{{"<s>"}, {static_cast<int64_t>(TokenType::kControl)}};
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const size_t first = row.find(' '), last = row.rfind(' ');
    const bool whole = first != std::string_view::npos && last > first;
    const auto id = number_of<uint32_t>(row.substr(0, first), 10);
    const auto bytes =
        whole ? bytes_of(row.substr(first + 1, last - first - 1)) : std::optional<std::string>();
    const auto length = whole ? number_of<size_t>(row.substr(last + 1), 10) : std::nullopt;
    if (!id || *id == 0 || *id >= kMostTokens || !bytes || length != bytes->size())
      throw Error(ErrorKind::kFormat,
                  "{}: line {} is '{}', expected an id, a Python literal and its length in bytes",
                  what, line, printable(row));
    while (vocabulary.tokens.size() <= *id) {
      vocabulary.tokens.push_back(fmt::format("[PAD{}]", vocabulary.tokens.size()));
      vocabulary.types.push_back(static_cast<int64_t>(TokenType::kUnused));
    }
    vocabulary.tokens[*id] = with_escapes(*bytes);
    vocabulary.types[*id] = static_cast<int64_t>(TokenType::kNormal);
  }
  return vocabulary;
}

}  // namespace veery

#include "serve/http/multipart.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"

namespace veery::serve {
namespace {

constexpr size_t kMostParts = 100;
constexpr std::string_view kLine = "\r\n";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// Removes a value from the beginning of `text`: a quoted string, or the text up to ';'.
std::string take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    const size_t end = std::min(text.find(';'), text.size());
    value = trimmed(text.substr(0, end));
    text.remove_prefix(end);
    return value;
  }
  size_t at = 1;
  // A backslash escapes only a quote; elsewhere it is part of a Windows path.
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == '"') ++at;
    value += text[at];
  }
  text.remove_prefix(std::min(at + 1, text.size()));
  return value;
}

// Returns the parameter `name` of a header like 'form-data; name="a"; filename="b"'; empty: none.
std::string parameter(std::string_view header, std::string_view name) {
  header.remove_prefix(std::min(header.find(';'), header.size()));
  while (!header.empty()) {
    header.remove_prefix(1);
    const size_t equals = header.find('=');
    if (equals == std::string_view::npos) break;
    const std::string found = lower(trimmed(header.substr(0, equals)));
    header = header.substr(equals + 1);
    header.remove_prefix(std::min(header.find_first_not_of(" \t"), header.size()));
    std::string value = take_value(header);
    if (found == name) return value;
    header.remove_prefix(std::min(header.find(';'), header.size()));
  }
  return {};
}

FormPart read_part(std::string_view content) {
  const size_t blank = content.starts_with(kLine) ? 0 : content.find("\r\n\r\n");
  if (blank == std::string_view::npos)
    throw Error(ErrorKind::kInput, "the form: a part has no empty line after its headers");
  std::string_view headers = content.substr(0, blank);
  FormPart part{.body = content.substr(blank + (blank == 0 ? 2 : 4))};
  bool named = false;
  while (!headers.empty()) {
    const size_t end = std::min(headers.find(kLine), headers.size());
    const std::string_view header = headers.substr(0, end);
    const size_t colon = std::min(header.find(':'), header.size());
    if (lower(trimmed(header.substr(0, colon))) == "content-disposition") {
      part.name = parameter(header.substr(colon), "name");
      part.file_name = parameter(header.substr(colon), "filename");
      named = true;
    }
    headers.remove_prefix(std::min(end + kLine.size(), headers.size()));
  }
  if (!named || part.name.empty())
    throw Error(ErrorKind::kInput, "the form: a part has no name in a Content-Disposition");
  return part;
}

}  // namespace

std::vector<FormPart> parse_form(std::string_view type, std::string_view body) {
  if (lower(trimmed(type.substr(0, type.find(';')))) != "multipart/form-data")
    throw Error(ErrorKind::kInput, "the Content-Type is '{}', expected multipart/form-data",
                printable(type, 100));
  const std::string boundary = parameter(type, "boundary");
  if (boundary.empty() || boundary.size() > 70)
    throw Error(ErrorKind::kInput, "the Content-Type has no boundary of 1 to 70 characters");
  const std::string mark = "\r\n--" + boundary;
  // The first boundary may be at the beginning or after lines that are ignored.
  size_t at = 0;
  if (body.starts_with(mark.substr(2))) {
    at = mark.size() - 2;
  } else if ((at = body.find(mark)) != std::string_view::npos) {
    at += mark.size();
  } else {
    throw Error(ErrorKind::kInput, "the form: its boundary '{}' is not in the body",
                printable(boundary, 100));
  }
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    const size_t line = body.find(kLine, at);
    const size_t next = line == std::string_view::npos ? line : body.find(mark, line);
    if (next == std::string_view::npos)
      throw Error(ErrorKind::kInput, "the form ends within part {}", parts.size() + 1);
    if (parts.size() == kMostParts)
      throw Error(ErrorKind::kInput, "the form has more than {} parts", kMostParts);
    const size_t begin = line + kLine.size();
    parts.push_back(read_part(body.substr(std::min(begin, next), next - std::min(begin, next))));
    at = next + mark.size();
  }
  return parts;
}

}  // namespace veery::serve

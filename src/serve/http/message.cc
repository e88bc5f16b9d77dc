#include "serve/http/message.h"

#include <algorithm>
#include <cctype>

namespace veery::serve {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool begins_with_scheme(std::string_view target, std::string_view scheme) {
  if (target.size() < scheme.size()) return false;
  for (size_t i = 0; i < scheme.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(target[i])) != scheme[i]) return false;
  return true;
}

}  // namespace

std::string percent_decoded(std::string_view text, bool plus) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += plus && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

void set_target(HttpRequest& request, std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!begins_with_scheme(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    request.headers["host"] = std::string(target.substr(0, end));
    target.remove_prefix(end);
    break;
  }
  const size_t mark = target.find('?');
  request.path = percent_decoded(target.substr(0, mark));
  if (request.path.empty()) request.path = "/";
  std::string_view rest =
      mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (!pair.empty())
      request.query[percent_decoded(pair.substr(0, equals), true)] =
          percent_decoded(pair.substr(std::min(equals + 1, pair.size())), true);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace veery::serve

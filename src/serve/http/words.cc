#include "serve/http/words.h"

#include <algorithm>

namespace veery::serve {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string normal_host(std::string_view authority) {
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos)
    authority.remove_prefix(at + 1);
  if (authority.starts_with('['))
    return lower_case(authority.substr(1, std::min(authority.find(']'), authority.size()) - 1));
  authority = authority.substr(0, std::min(authority.find(':'), authority.size()));
  if (authority.ends_with('.')) authority.remove_suffix(1);
  return lower_case(authority);
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower_case(authorization.substr(0, kScheme.size())) != kScheme) return {};
  authorization.remove_prefix(kScheme.size());
  const size_t first = authorization.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return authorization.substr(first, authorization.find_last_not_of(' ') + 1 - first);
}

}  // namespace veery::serve

// api_keys.h: the API keys of a server and their limits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery::serve {

struct ApiKey {
  std::string name;      ///< for the log, which never has the key itself
  std::string secret;    ///< the key that requests bring
  double weight = 1;     ///< share of the models relative to other keys
  int32_t priority = 0;  ///< requests of higher priority begin first
  // 0: no limit.
  int64_t concurrent_requests = 0;
  int64_t requests_per_minute = 0, tokens_per_minute = 0;
};

/// Reads the content of a key file. Either one key per line (empty lines and white space around a
/// key are ignored; the names are "key 1", "key 2" ...), or a JSON object {"keys": [{"key": "...",
/// "name": "...", "weight": 1, "priority": 0, "concurrent_requests": 4, "requests_per_minute": 60,
/// "tokens_per_minute": 100000}]}, whose members are optional except "key". Throws kInput naming
/// `where` and the entry for a file without keys, a JSON list, unknown members, values out of range
/// and equal keys or names.
std::vector<ApiKey> parse_api_keys(std::string_view text, const std::string& where);

/// Compares in a time that does not depend on where the two differ.
bool same_secret(std::string_view given, std::string_view expected);

}  // namespace veery::serve

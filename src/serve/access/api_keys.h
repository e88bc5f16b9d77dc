// api_keys.h: who may ask a server, and how much.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery::serve {

struct ApiKey {
  std::string name;      ///< for the log: never the key itself
  std::string secret;    ///< what requests bring
  double weight = 1;     ///< share of the models beside other keys
  int32_t priority = 0;  ///< requests of higher ones are begun first
  // 0: no limit.
  int64_t concurrent_requests = 0;
  int64_t requests_per_minute = 0, tokens_per_minute = 0;
};

/// Reads a key a line (white space around it and empty lines do not count; names are "key 1", "key
/// 2" ...), or a JSON object {"keys": [{"key": "...", "name": "...", "weight": 1, "priority": 0,
/// "concurrent_requests": 4, "requests_per_minute": 60, "tokens_per_minute": 100000}]}, where all
/// but the key may be absent. Throws kInput naming `where` and the entry: no keys, unknown members,
/// values out of range, two equal keys or names.
std::vector<ApiKey> parse_api_keys(std::string_view text, const std::string& where);

/// Compares without telling by the time it takes where they differ.
bool same_secret(std::string_view given, std::string_view expected);

}  // namespace veery::serve

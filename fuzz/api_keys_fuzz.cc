// api_keys_fuzz.cc: a file of API keys must yield keys with names and limits in range, or throw
// veery::Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "serve/access/api_keys.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& key : veery::serve::parse_api_keys(text, "keys"))
      if (key.secret.empty() || key.name.empty() || !(key.weight > 0) ||
          key.concurrent_requests < 0 || key.requests_per_minute < 0 || key.tokens_per_minute < 0)
        std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

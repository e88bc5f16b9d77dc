// multipart_fuzz.cc: the first line is a Content-Type, the rest a body; it must yield parts of the
// body, or throw veery::Error.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "serve/http/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), size);
  const std::string_view body = input.substr(std::min(line + 1, size));
  try {
    for (const auto& part : veery::serve::parse_form(input.substr(0, line), body)) {
      const std::less_equal<> before;
      const bool inside = before(body.data(), part.body.data()) &&
                          before(part.body.data() + part.body.size(), body.data() + body.size());
      if (part.name.empty() || !inside) std::abort();
    }
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

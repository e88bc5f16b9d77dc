// imatrix_fuzz.cc: any bytes must be an importance matrix of finite numbers, or throw veery::Error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "file/gguf/imatrix.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto matrix = veery::parse_old_imatrix(std::as_bytes(std::span(data, size)), "fuzz");
    for (const auto& [name, values] : matrix.values)
      for (const float value : values)
        if (!std::isfinite(value) || value < 0) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

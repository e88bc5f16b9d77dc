// reference_fuzz.cc: any bytes must be recorded logits whose rows lie within their texts, or throw
// veery::Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "verify/reference.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& set : veery::parse_reference(std::as_bytes(std::span(data, size)), "fuzz"))
      for (const auto& text : set.texts) {
        if (text.ids.empty()) std::abort();
        for (const auto& row : text.rows)
          if (row.position < 0 || row.position >= std::ssize(text.ids)) std::abort();
      }
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

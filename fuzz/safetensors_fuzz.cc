// safetensors_fuzz.cc: any bytes must parse with all views inside them, or throw veery::Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "file/folder/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const veery::SafetensorsFile file = veery::parse_safetensors(bytes, "fuzz");
    unsigned sum = 0;
    for (const veery::StoredTensor& tensor : file.tensors) {
      for (const std::byte byte : tensor.data) sum += static_cast<unsigned>(byte);
      if (tensor.data.size() > size) std::abort();
    }
    if (sum == ~0U) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

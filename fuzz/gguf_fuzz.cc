// gguf_fuzz.cc: any bytes must parse with all views inside them, or throw veery::Error.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/error.h"
#include "file/gguf/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const veery::ModelFile model = veery::parse_gguf(bytes, "fuzz");
    for (const veery::TensorView& tensor : model.tensors) {
      const std::byte* end = tensor.data.data() + tensor.data.size();
      if (tensor.data.data() < bytes.data() || end > bytes.data() + bytes.size()) std::abort();
      if (!veery::info(tensor.dtype).decodable) continue;
      std::vector<float> out(static_cast<size_t>(tensor.elements()));
      veery::decode(tensor.dtype, tensor.data, out);
    }
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

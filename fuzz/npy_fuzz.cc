// npy_fuzz.cc: any bytes must be a .npy array whose data are inside them, or a .npz archive whose
// arrays can be read, or throw veery::Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "tensor/io/npy_array.h"

namespace {

constexpr size_t kMostBytes = size_t{1} << 24;

void read_array(std::span<const std::byte> bytes) {
  using namespace veery::tensor;
  const NpyHeader header =
      parse_npy_header(bytes.first(std::min(bytes.size(), kMostNpyHeader)), bytes.size(), "fuzz");
  if (header.data_at > bytes.size() || header.data_bytes() != bytes.size() - header.data_at)
    std::abort();
  const Tensor x = npy_array(header, bytes.data() + header.data_at, nullptr);
  if (x.values<double>().size() != static_cast<size_t>(x.size())) std::abort();
}

void read_archive(std::span<const std::byte> bytes) {
  size_t sum = 0;
  for (const auto& [name, x] : veery::tensor::parse_npz(bytes, "fuzz", kMostBytes))
    sum += x.values<uint8_t>().size();
  if (sum > kMostBytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    if (size > 0 && data[0] == 'P')
      read_archive(bytes);
    else
      read_array(bytes);
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}

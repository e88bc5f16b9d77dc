#include "file/output/npy.h"

#include "base/error.h"
#include "file/output/pending_file.h"

namespace veery {
namespace {

constexpr size_t kAlignment = 64;  // of the data
constexpr size_t kBefore = 10;     // bytes before the header: magic, version, header length

void write(const std::string& path, const std::string& type, std::span<const int64_t> shape,
           std::span<const std::byte> bytes, size_t count) {
  size_t expected = 1;
  for (const int64_t size : shape) expected *= static_cast<size_t>(size);
  VEERY_CHECK(expected == count);
  PendingFile file(path, {.existing = Existing::kRefuse});
  const std::string header = npy_header(type, shape);
  file.write(header.data(), header.size());
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

std::string npy_header(const std::string& type, std::span<const int64_t> shape) {
  std::string sizes;
  for (const int64_t size : shape) sizes += fmt::format("{},", size);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  const size_t whole = round_up(kBefore + text.size() + 1, kAlignment);
  text.resize(whole - kBefore - 1, ' ');
  text += '\n';
  const size_t size = text.size();
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(size & 0xFF) +
         static_cast<char>(size >> 8) + text;
}

void write_npy(const std::string& path, std::span<const int64_t> shape,
               std::span<const float> values) {
  write(path, "<f4", shape, std::as_bytes(values), values.size());
}

void write_npy(const std::string& path, std::span<const int64_t> shape,
               std::span<const int32_t> values) {
  write(path, "<i4", shape, std::as_bytes(values), values.size());
}

}  // namespace veery

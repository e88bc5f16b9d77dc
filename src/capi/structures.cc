#include "capi/structures.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace veery::capi {
namespace {

// Limit of bytes that a later version may add. A larger size means an uninitialised structure.
constexpr size_t kMostUnknown = 4096;

void check_size(const StructureLayout& layout, size_t size) {
  const size_t least = sizeof(size_t) + layout.alignment;  // one member after the size
  if (size < least || size > layout.size + kMostUnknown || size % layout.alignment != 0)
    throw Error(ErrorKind::kInput,
                "{}: its size is {}, expected {}: initialise the structure, or set size to sizeof",
                layout.name, size, layout.size);
}

}  // namespace

void read_structure(const StructureLayout& layout, const void* given, size_t size, void* known) {
  check_size(layout, size);
  const std::span bytes(static_cast<const unsigned char*>(given), size);
  for (size_t i = layout.size; i < size; ++i)
    if (bytes[i] != 0)
      throw Error(ErrorKind::kUnsupported,
                  "{}: its size is {} and byte {} is set, this version of veery knows {} bytes: "
                  "leave members of later versions 0",
                  layout.name, size, i, layout.size);
  std::memcpy(known, given, std::min(size, layout.size));
}

void write_structure(const StructureLayout& layout, const void* known, void* out, size_t size) {
  check_size(layout, size);
  const size_t shared = std::min(size, layout.size);
  std::memcpy(out, known, shared);
  std::memset(static_cast<unsigned char*>(out) + shared, 0, size - shared);
}

}  // namespace veery::capi

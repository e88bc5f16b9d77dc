// safetensors.h: reading and writing safetensors files.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "dtype/dtype.h"
#include "file/output/pending_file.h"

namespace veery {

// Source: the safetensors format description (huggingface/safetensors, README). u64 length of the
// header, the header in JSON, the tensors without gaps. Offsets count from the end of the header.

/// Element types as headers spell them. Not all can be weights on their own: packed integers and
/// 8-bit floats need scales beside them.
enum class StoredType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E8M0,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
  kCount
};
std::string_view name(StoredType type);
int64_t byte_size(StoredType type);  ///< of one element
/// The type of a view with the same bytes; absent where there is none.
std::optional<DType> to_dtype(StoredType type);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;       ///< slowest first; empty: one number; sizes of 0 are allowed
  std::span<const std::byte> data;  ///< at any address
};

struct SafetensorsFile {
  std::string path;
  std::vector<StoredTensor> tensors;            ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< __metadata__
  std::shared_ptr<MappedFile> mapping;

  const StoredTensor* find(std::string_view name) const;
};

/// Maps and checks `path`. Throws kFormat naming the tensor, what was found and what was expected:
/// a header over kSafetensorsHeader, anything but the format's own structure in it (so nothing
/// can nest), names given twice, shapes that overflow or do not fit the bytes, ranges that overlap,
/// leave gaps or go beyond the file; kUnsupported for an unknown type.
SafetensorsFile open_safetensors(const std::string& path);

/// The same on bytes in memory; `name` stands for the path in messages.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// Writes a file piece by piece, to a temporary name beside `path`. The data start at a multiple of
/// 64; tensors lie in order of falling element size, then of names, so each is aligned to its
/// elements. Without commit() nothing is left.
class SafetensorsWriter {
 public:
  /// Writes the header. Of `tensors`, names, types and shapes are looked at. Throws kInput naming a
  /// tensor that the format cannot hold or that appears twice, kIo.
  SafetensorsWriter(const std::string& path, std::span<const StoredTensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  /// Bytes of the data of tensors[index], from `offset` on. Pieces may come in any order.
  void write(size_t index, size_t offset, std::span<const std::byte> bytes);
  /// Gives the file its name, once all bytes are there.
  void commit();

 private:
  struct Place {
    uint64_t begin = 0;
    size_t size = 0;
  };
  PendingFile file_;
  std::vector<Place> places_;
  size_t left_ = 0;  ///< bytes that are to come
};

}  // namespace veery

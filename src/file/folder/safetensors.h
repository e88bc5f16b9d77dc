// safetensors.h: reads and writes safetensors files.
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

// Source: the safetensors format description (huggingface/safetensors, README): the length of the
// header as u64, the header in JSON, the tensors without gaps. Offsets are relative to the end of
// the header.

/// Element types as headers spell them. Packed integers and 8-bit floats only form weights together
/// with separate scales.
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
/// Returns the DType with the same representation; nullopt if there is none.
std::optional<DType> to_dtype(StoredType type);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  /// Slowest dimension first; empty: a scalar; sizes of 0 are allowed.
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  ///< may be unaligned
};

struct SafetensorsFile {
  std::string path;
  std::vector<StoredTensor> tensors;            ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< __metadata__
  std::shared_ptr<MappedFile> mapping;

  const StoredTensor* find(std::string_view name) const;
};

/// Maps and checks `path`. Throws kFormat naming the tensor, what was found and what was expected,
/// for: a header longer than kSafetensorsHeader or with any other structure than the format's
/// (which bounds nesting), duplicate names, shapes that overflow or do not match the bytes, ranges
/// that overlap, leave gaps or exceed the file. Throws kUnsupported for an unknown type.
SafetensorsFile open_safetensors(const std::string& path);

/// As open_safetensors() for bytes in memory; `name` replaces the path in messages.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// Writes a file in pieces, under a temporary name next to `path`. The data start at a multiple of
/// 64. Tensors are ordered by decreasing element size, then by name, so each is aligned to its
/// elements. Without commit() the file is removed.
class SafetensorsWriter {
 public:
  /// Writes the header, from the names, types and shapes of `tensors`. Throws kIo, or kInput naming
  /// a tensor that the format cannot represent or that appears twice.
  SafetensorsWriter(const std::string& path, std::span<const StoredTensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  /// Writes bytes of the data of tensors[index] from `offset` on. Pieces may come in any order.
  void write(size_t index, size_t offset, std::span<const std::byte> bytes);
  /// Renames the file to its final name. All bytes must have been written.
  void commit();

 private:
  struct Place {
    uint64_t begin = 0;
    size_t size = 0;
  };
  PendingFile file_;
  std::vector<Place> places_;
  size_t left_ = 0;  ///< bytes that are still to be written
};

}  // namespace veery

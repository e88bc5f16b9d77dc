// gguf.h: reads and writes GGUF (versions 2 and 3, little endian).
#pragma once
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "file/model_file.h"
#include "file/output/pending_file.h"

namespace veery {

/// Maps and checks `path` and, for a split model (NAME-00001-of-00003.gguf), all other parts; any
/// part may be given. Every count, offset and size is checked before use; throws kFormat with the
/// position and both numbers.
ModelFile open_gguf(const std::string& path);

/// As open_gguf() for bytes in memory (tests, fuzzing), which must not be part of a split model;
/// `name` replaces the path in messages.
ModelFile parse_gguf(std::span<const std::byte> bytes, const std::string& name);

/// Writes version 3 tensor by tensor, under a temporary name next to `path` (PendingFile). Tensors
/// are aligned to general.alignment, 32 if unset. Values keep their value but take the narrowest
/// type: integers u32, i32 or i64 (u64 is kept), integer arrays i32, u32 or i64, floats f32 if that
/// is exact. Throws kIo (including a full disk). Without commit() the file is removed.
class GgufWriter {
 public:
  /// Writes everything before the data, from the names, types and shapes of `tensors`. Throws
  /// kInput naming a tensor that the format cannot represent, and as file_to_write() does.
  GgufWriter(const std::string& path, const Metadata& metadata, std::span<const TensorView> tensors,
             const OutputRules& rules = {});
  /// Writes the next bytes of the data: tensors in the given order, each in one or several pieces.
  void write(std::span<const std::byte> bytes);
  /// Flushes all bytes to disk; the file still has its temporary name.
  void finish();
  /// Renames the file to its final name. All bytes must have been written.
  void commit();

 private:
  PendingFile file_;
  uint64_t alignment_;
  std::vector<size_t> left_;  ///< bytes of each tensor that are still to be written
  size_t tensor_ = 0;
};

/// Writes a split model with at most `limit` bytes of data per part (a larger tensor gets its own
/// part), named as open_gguf() expects; a single file if that suffices or `limit` is 0. The first
/// part holds the metadata. The views in `metadata` must stay valid. The parts get their final
/// names only after all are complete.
class SplitGgufWriter {
 public:
  /// Throws kLimit if the number of parts exceeds the format's limit, and as file_to_write() does
  /// for any part.
  SplitGgufWriter(const std::string& path, const Metadata& metadata,
                  std::vector<TensorView> tensors, uint64_t limit, OutputRules rules = {});
  /// Returns the file names of all parts, in order.
  std::vector<std::string> names() const;
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::string name_of(size_t number) const;
  struct Part {
    size_t begin = 0, end = 0;  // range of tensors
    size_t bytes = 0;
  };
  void open_next();

  std::string path_;
  const Metadata& metadata_;
  std::vector<TensorView> tensors_;
  std::vector<Part> parts_;
  OutputRules rules_;
  std::vector<std::unique_ptr<GgufWriter>> writers_;
  size_t left_ = 0;  // bytes of the current part that are still to be written
};

}  // namespace veery

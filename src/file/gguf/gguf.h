// gguf.h: reading and writing GGUF (versions 2 and 3, little endian).
#pragma once
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "file/model_file.h"
#include "file/output/pending_file.h"

namespace veery {

/// Maps and checks `path`, and the other parts of a split model beside it
/// (NAME-00001-of-00003.gguf; any part may be given). Every count, offset and size is checked
/// before it is used; throws kFormat with the place and both numbers.
ModelFile open_gguf(const std::string& path);

/// The same on bytes in memory (tests, fuzzing), which cannot be a part of a split model; `name`
/// stands for the path in messages.
ModelFile parse_gguf(std::span<const std::byte> bytes, const std::string& name);

/// Writes version 3 a tensor at a time, to a temporary name beside `path` (PendingFile). Tensors
/// are aligned to general.alignment, 32 if it is not set. Integers take the narrowest of u32, i32,
/// i64 (u64 stays), arrays of them i32, u32 or i64, floats f32 where that is exact: reading the
/// file gives the same values again. Throws kIo (a full disk included); without commit() nothing is
/// left.
class GgufWriter {
 public:
  /// Writes what stands before the data. Of `tensors`, names, types and shapes are looked at.
  /// Throws kInput naming a tensor that the format cannot hold, and as file_to_write() does.
  GgufWriter(const std::string& path, const Metadata& metadata, std::span<const TensorView> tensors,
             const OutputRules& rules = {});
  /// The next bytes of the data: tensors in the order given, each in one piece or several.
  void write(std::span<const std::byte> bytes);
  /// All bytes are there and on the disk; the file has no name yet.
  void finish();
  /// Gives the file its name, once all bytes are there.
  void commit();

 private:
  PendingFile file_;
  uint64_t alignment_;
  std::vector<size_t> left_;  ///< bytes of each tensor that are to come
  size_t tensor_ = 0;
};

/// The same in parts of at most `limit` bytes of data (a larger tensor has one of its own), named
/// as open_gguf expects them; one file if that is enough or `limit` is 0. The first part has the
/// metadata. The views in `metadata` must live as long. No part appears before all are whole.
class SplitGgufWriter {
 public:
  /// Throws kLimit for more parts than can be numbered, and as file_to_write() does for any part.
  SplitGgufWriter(const std::string& path, const Metadata& metadata,
                  std::vector<TensorView> tensors, uint64_t limit, OutputRules rules = {});
  /// Of all parts, in order.
  std::vector<std::string> names() const;
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::string name_of(size_t number) const;
  struct Part {
    size_t begin = 0, end = 0;  // tensors
    size_t bytes = 0;
  };
  void open_next();

  std::string path_;
  const Metadata& metadata_;
  std::vector<TensorView> tensors_;
  std::vector<Part> parts_;
  OutputRules rules_;
  std::vector<std::unique_ptr<GgufWriter>> writers_;
  size_t left_ = 0;  // bytes of the last writer that are to come
};

}  // namespace veery

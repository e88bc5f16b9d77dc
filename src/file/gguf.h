// gguf.h: reading and writing GGUF (versions 2 and 3, little endian).
#pragma once
#include <iosfwd>
#include <span>
#include <string>

#include "file/model_file.h"

namespace veery {

/// Maps and checks `path`, and the other parts of a split model beside it
/// (NAME-00001-of-00003.gguf; any part may be given). Every count, offset and size is checked
/// before it is used; throws kFormat with the place and both numbers.
ModelFile open_gguf(const std::string& path);

/// The same on bytes in memory (tests, fuzzing), which cannot be a part of a split model; `name`
/// stands for the path in messages.
ModelFile parse_gguf(std::span<const std::byte> bytes, const std::string& name);

/// Writes version 3 to a temporary name beside `path`, then renames. Tensors are aligned to
/// general.alignment, 32 if it is not set. Integers take the narrowest of u32, i32, i64 (u64
/// stays), arrays of them i32, u32 or i64, floats f32 where that is exact: reading the file gives
/// the same values again. Throws kInput if a tensor's bytes do not fit its shape, kIo (a full disk
/// included); leaves no partial file.
void write_gguf(const std::string& path, const Metadata& metadata,
                std::span<const TensorView> tensors);

}  // namespace veery

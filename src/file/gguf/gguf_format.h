// gguf_format.h: constants of the GGUF format, shared by reader and writer.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "file/model_file.h"

namespace veery::gguf {

// Source: the GGUF specification (ggml/docs/gguf.md), versions 2 and 3; both have 64-bit counts.

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kOldestVersion = 2;
inline constexpr uint32_t kNewestVersion = 3;
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr uint32_t kMaxDims = 4;
inline constexpr uint64_t kMaxNameBytes = 65535;  ///< of a key or a tensor name
inline constexpr const char* kAlignmentKey = "general.alignment";
inline constexpr const char* kSplitCountKey = "split.count";
inline constexpr const char* kSplitNumberKey = "split.no";              ///< counts from 0
inline constexpr const char* kSplitTensorsKey = "split.tensors.count";  ///< total over all parts

/// Metadata value types, as numbered in files.
enum class ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kCount
};

/// Minimum size of a value in bytes: a string has at least its length, an array its type and count.
inline constexpr uint64_t kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
static_assert(std::size(kValueBytes) == static_cast<size_t>(ValueType::kCount));

/// Minimum sizes in bytes of a key with its value, and of a tensor description (one-letter name,
/// one dimension).
inline constexpr uint64_t kLeastEntryBytes = 8 + 1 + 4 + 1;
inline constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

/// Returns general.alignment or its default. Throws kFormat naming `file` if it is not a power of
/// two.
uint64_t alignment_of(const Metadata& metadata, const std::string& file);

/// Parses one file: a whole model, or one part of a split model.
ModelFile parse_part(std::span<const std::byte> bytes, const std::string& name);

}  // namespace veery::gguf

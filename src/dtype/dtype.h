// dtype.h: the element and block types of weights: names, sizes, and reference encode and decode.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dtype/half.h"

namespace veery {

/// 2, 3, 4, 5, 6, 8 bits x groups of 32, 64, 128 x scales in f16, bf16, f32.
inline constexpr int kAffineTypes = 6 * 3 * 3;

/// Element and block types. The order is ours; ggml's numbers are a column of the table.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ8_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ1_S,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
  kMXFP8,    ///< e4m3 with an E8M0 scale for 32
  kFP8_32,   ///< e4m3 with an f32 scale for 32
  kFP8_128,  ///< e4m3 with an f32 scale for 128
  kQ2_0,     ///< written only: read as affine groups (file/gguf/q2_groups.h)
  kAffine,   ///< the first of kAffineTypes (dtype/affine.h)
  kCount = kAffine + kAffineTypes
};

/// DTypeInfo::ggml of a type that GGUF files do not have.
inline constexpr uint32_t kNotInGgml = UINT32_MAX;

/// One row of the type table. A block holds `block` consecutive elements of a row in `bytes` bytes.
struct DTypeInfo {
  DType type;
  std::string_view name;  ///< as ggml prints it: "f32", "q4_K"
  uint32_t ggml;          ///< the number in GGUF files, or kNotInGgml
  int block;              ///< elements a block; 1 for plain elements
  int bytes;              ///< bytes a block
  bool quantized;         ///< integers with scales
  bool decodable;         ///< decode() to f32 is defined
  bool encodable;         ///< encode() from f32 is defined
};

const DTypeInfo& info(DType type);
std::optional<DType> dtype_from_ggml(uint32_t ggml);
std::optional<DType> dtype_from_name(std::string_view name);  ///< case is ignored

/// Bytes of `elements` (a whole number of blocks; else throws kInput).
size_t byte_size(DType type, int64_t elements);

/// Decodes out.size() elements (whole blocks) from `in` (byte_size(type, out.size()) bytes).
void decode(DType type, std::span<const std::byte> in, std::span<float> out);

/// Encodes in.size() elements (whole blocks) with the least squared error that a search over scales
/// and codes finds. `importance`: of each element of a row (in holds whole rows), what its squared
/// error counts; empty: sqrt(2 + x^2 / mean x^2), so large ones more. Throws kUnsupported for types
/// that are not encodable, kInput naming the element if a quantised type is given NaN, infinity or
/// more than its scale can hold, f16 or bf16 a finite number that they round to infinity.
void encode(DType type, std::span<const float> in, std::span<std::byte> out,
            std::span<const float> importance = {});

}  // namespace veery

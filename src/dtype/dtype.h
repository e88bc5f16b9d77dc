// dtype.h: the element and block types of weights: names, sizes, reference encoding and decoding.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dtype/half.h"

namespace veery {

/// Number of affine types: {2, 3, 4, 5, 6, 8} bits x groups of {32, 64, 128} x {f16, bf16, f32}
/// scales.
inline constexpr int kAffineTypes = 6 * 3 * 3;

/// Element and block types. The order is our own; DTypeInfo::ggml has ggml's numbers.
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
  kMXFP8,    ///< e4m3, an E8M0 scale for 32 elements
  kFP8_32,   ///< e4m3, an f32 scale for 32 elements
  kFP8_128,  ///< e4m3, an f32 scale for 128 elements
  kQ2_0,     ///< write only: files of it are read as affine groups (file/gguf/q2_groups.h)
  kAffine,   ///< first of kAffineTypes types (dtype/affine.h)
  kCount = kAffine + kAffineTypes
};

/// Value of DTypeInfo::ggml for types that GGUF files cannot hold.
inline constexpr uint32_t kNotInGgml = UINT32_MAX;

/// A row of the type table. A block of `bytes` bytes holds `block` consecutive elements of a row.
struct DTypeInfo {
  DType type;
  std::string_view name;  ///< ggml's name: "f32", "q4_K"
  uint32_t ggml;          ///< the number in GGUF files, or kNotInGgml
  int block;              ///< elements per block; 1 for plain elements
  int bytes;              ///< bytes per block
  bool quantized;         ///< integer codes with scales
  bool decodable;         ///< decode() to f32 supports it
  bool encodable;         ///< encode() from f32 supports it
};

const DTypeInfo& info(DType type);
std::optional<DType> dtype_from_ggml(uint32_t ggml);
std::optional<DType> dtype_from_name(std::string_view name);  ///< case is ignored

/// Returns the size in bytes of `elements` elements. Throws kInput unless they form whole blocks.
size_t byte_size(DType type, int64_t elements);

/// Decodes out.size() elements (whole blocks) from `in`, which has byte_size(type, out.size())
/// bytes.
void decode(DType type, std::span<const std::byte> in, std::span<float> out);

/// Encodes in.size() elements (whole blocks) with the smallest weighted squared error that a search
/// over scales and codes finds. `importance` holds the error weight of each element of a row; `in`
/// then consists of whole rows. If it is empty, the weights are sqrt(2 + x^2 / mean x^2), which
/// favours large elements. Throws kUnsupported if the type is not encodable. Throws kInput naming
/// the element if a quantised type gets NaN, infinity or a value beyond its largest scale, or f16
/// or bf16 a finite value that rounds to infinity.
void encode(DType type, std::span<const float> in, std::span<std::byte> out,
            std::span<const float> importance = {});

}  // namespace veery

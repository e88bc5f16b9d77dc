#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "dtype/affine.h"
#include "dtype/blocks.h"
#include "dtype/code_books.h"
#include "dtype/fp8.h"
#include "file/model_file.h"

namespace veery {
namespace {

// Offsets of the f16 scales in a block.
struct ScaleOffsets {
  int count;
  size_t offset[2];
};

ScaleOffsets scale_offsets(DType type) {
  switch (type) {
    case DType::kF16: return {1, {0}};
    case DType::kQ4_0: return {1, {offsetof(BlockQ4_0, d)}};
    case DType::kQ4_1: return {2, {offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)}};
    case DType::kQ5_0: return {1, {offsetof(BlockQ5_0, d)}};
    case DType::kQ5_1: return {2, {offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)}};
    case DType::kQ8_0: return {1, {offsetof(BlockQ8_0, d)}};
    case DType::kQ8_1: return {2, {offsetof(BlockQ8_1, d), offsetof(BlockQ8_1, s)}};
    case DType::kQ2_K: return {2, {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)}};
    case DType::kQ3_K: return {1, {offsetof(BlockQ3_K, d)}};
    case DType::kQ4_K: return {2, {offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)}};
    case DType::kQ5_K: return {2, {offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)}};
    case DType::kQ6_K: return {1, {offsetof(BlockQ6_K, d)}};
    case DType::kTQ1_0: return {1, {offsetof(BlockTQ1_0, d)}};
    case DType::kTQ2_0: return {1, {offsetof(BlockTQ2_0, d)}};
    case DType::kQ2_0: return {1, {offsetof(BlockQ2_0, d)}};
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ1_S: return {1, {0}};
    default: return {0, {}};
  }
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Return whether all exponent bits are set (infinity or NaN). A bf16 is the upper half of an f32.
bool beyond_f16(uint16_t bits) { return (bits & 0x7C00U) == 0x7C00U; }
bool beyond_bf16(uint16_t bits) { return (bits & 0x7F80U) == 0x7F80U; }
bool beyond_f32(uint32_t bits) { return (bits & 0x7F800000U) == 0x7F800000U; }
bool beyond_f64(uint64_t bits) { return (bits & 0x7FF0000000000000U) == 0x7FF0000000000000U; }

// Checks an element of a plain float type.
bool is_finite(DType type, const std::byte* at) {
  if (type == DType::kF32) return !beyond_f32(load<uint32_t>(at));
  const auto half = load<uint16_t>(at);
  return type == DType::kF16 ? !beyond_f16(half) : !beyond_bf16(half);
}

// Checks the elements of an FP8 block, which follow the scale.
bool has_no_nan(DType type, const std::byte* block) {
  const DTypeInfo& row = info(type);
  for (int i = row.bytes - row.block; i < row.bytes; ++i)
    if (is_nan_e4m3(static_cast<uint8_t>(block[i]))) return false;
  return true;
}

bool is_finite(DType type, const ScaleOffsets& places, const std::byte* block) {
  switch (type) {
    case DType::kF32:
    case DType::kQ8_K: return !beyond_f32(load<uint32_t>(block));
    case DType::kBF16: return !beyond_bf16(load<uint16_t>(block));
    case DType::kF64: return !beyond_f64(load<uint64_t>(block));
    case DType::kIQ1_M: return !beyond_f16(scale_iq1_m(load<BlockIQ1_M>(block)));
    case DType::kMXFP8:
      return static_cast<uint8_t>(*block) < kScaleLimitMXFP8 && has_no_nan(type, block);
    case DType::kFP8_32:
    case DType::kFP8_128: return is_finite(DType::kF32, block) && has_no_nan(type, block);
    default: break;
  }
  if (is_affine(type)) {
    const AffineFormat format = affine_format(type);
    return is_finite(format.scale, block) && is_finite(format.scale, block + format.scale_bytes());
  }
  for (int i = 0; i < places.count; ++i)
    if (beyond_f16(load<uint16_t>(block + places.offset[i]))) return false;
  return true;
}

std::string_view name_of_number(const DTypeInfo& type) {
  if (type.quantized) return "scale of block";
  return type.block == 1 ? "element" : "scale or an element of block";
}

}  // namespace

void check_finite_scales(const TensorView& tensor, size_t begin, size_t bytes) {
  const DTypeInfo& type = info(tensor.dtype);
  if (!type.decodable) return;
  const ScaleOffsets places = scale_offsets(tensor.dtype);
  const auto size = static_cast<size_t>(type.bytes);
  const size_t end = begin + std::min(bytes, tensor.data.size() - begin);
  for (size_t block = begin / size; block < end / size; ++block)
    if (!is_finite(tensor.dtype, places, tensor.data.data() + block * size))
      throw Error(ErrorKind::kFormat,
                  "tensor '{}' ({}): the {} {} is NaN or infinite, expected a finite number",
                  tensor.name, type.name, name_of_number(type), block);
}

}  // namespace veery

// affine.h: MLX's affine groups (codes with a scale and a bias): types, layout and decoding.
#pragma once
#include <cstring>
#include <iterator>
#include <span>

#include "dtype/dtype.h"

namespace veery {

/// The format of an affine group: element = scale * code + bias. A group is stored as its scale,
/// its bias, and `group` codes packed into one bit stream, lowest bits first, as MLX packs them.
struct AffineFormat {
  int bits = 4;
  int group = 64;
  DType scale = DType::kF16;  ///< f16, bf16 or f32; the bias has the same type

  constexpr int scale_bytes() const { return scale == DType::kF32 ? 4 : 2; }
  constexpr int codes_at() const { return 2 * scale_bytes(); }
  constexpr int bytes() const { return codes_at() + group * bits / 8; }
  constexpr bool operator==(const AffineFormat&) const = default;
};

constexpr bool is_affine(DType type) { return type >= DType::kAffine && type < DType::kCount; }

constexpr int affine_index(DType type) {
  return static_cast<int>(type) - static_cast<int>(DType::kAffine);
}
constexpr DType affine_at(int index) {
  return static_cast<DType>(static_cast<int>(DType::kAffine) + index);
}

constexpr AffineFormat affine_format(DType type) {
  constexpr int kBits[] = {2, 3, 4, 5, 6, 8};
  constexpr int kGroups[] = {32, 64, 128};
  constexpr DType kScales[] = {DType::kF16, DType::kBF16, DType::kF32};
  const int index = affine_index(type);
  return {kBits[index / 9], kGroups[index / 3 % 3], kScales[index % 3]};
}
/// Returns the type of a format; kCount if there is none.
constexpr DType affine_type(const AffineFormat& format) {
  for (int i = 0; i < kAffineTypes; ++i)
    if (affine_format(affine_at(i)) == format) return affine_at(i);
  return DType::kCount;
}

/// Reads a scale or bias as f32.
inline float affine_scale(DType type, const void* at) {
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return type == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

/// Unpacks `count` codes (a multiple of 8) from a bit stream.
template <int kBits>
void unpack_codes(const uint8_t* stream, int count, uint8_t* codes) {
  for (int i = 0; i < count; i += 8, stream += kBits) {
    uint64_t eight = 0;
    std::memcpy(&eight, stream, kBits);
    for (int k = 0; k < 8; ++k)
      codes[i + k] = static_cast<uint8_t>(eight >> (kBits * k) & ((1U << kBits) - 1));
  }
}
inline void unpack_codes(int bits, const uint8_t* stream, int count, uint8_t* codes) {
  switch (bits) {
    case 2: return unpack_codes<2>(stream, count, codes);
    case 3: return unpack_codes<3>(stream, count, codes);
    case 4: return unpack_codes<4>(stream, count, codes);
    case 5: return unpack_codes<5>(stream, count, codes);
    case 6: return unpack_codes<6>(stream, count, codes);
    default: return unpack_codes<8>(stream, count, codes);
  }
}

/// Decodes whole groups to f32; the product and the sum are rounded separately.
inline void decode_affine(const AffineFormat& format, std::span<const std::byte> in,
                          std::span<float> out) {
  uint8_t codes[128];
  const auto* at = reinterpret_cast<const uint8_t*>(in.data());
  for (size_t i = 0; i < out.size(); at += format.bytes()) {
    const float scale = affine_scale(format.scale, at);
    const float bias = affine_scale(format.scale, at + format.scale_bytes());
    unpack_codes(format.bits, at + format.codes_at(), format.group, codes);
    for (int k = 0; k < format.group; ++k, ++i)
      out[i] = scale * static_cast<float>(codes[k]) + bias;
  }
}

}  // namespace veery

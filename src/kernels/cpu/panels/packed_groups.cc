#include "kernels/cpu/panels/packed_groups.h"

#include "kernels/cpu/panels/panels.h"

namespace veery {
namespace {

using Bytes = uint8_t;

// A record holds 32 codes of a row: 4 * bits bytes, in the layouts of panels.h.

// Returns the index of the element in bits 2 s and 2 s + 1 of byte [h][i].
constexpr int element_of_two_bits(int h, int i, int s) {
  return 16 * (s % 2) + 4 * (2 * h + s / 2) + i;
}
void put_two_bits(const Bytes* codes, int from, Bytes* out) {
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 4; ++i) {
      unsigned byte = 0;
      for (int s = 0; s < 4; ++s)
        byte |= (codes[element_of_two_bits(h, i, s)] >> from & 3U) << (2 * s);
      out[4 * h + i] = static_cast<Bytes>(byte);
    }
}
void take_two_bits(const Bytes* in, int to, Bytes* codes) {
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 4; ++i)
      for (int s = 0; s < 4; ++s) {
        Bytes& code = codes[element_of_two_bits(h, i, s)];
        code = static_cast<Bytes>(code | (in[4 * h + i] >> (2 * s) & 3) << to);
      }
}

void put_codes(int bits, const Bytes* codes, Bytes* out) {
  if (bits == 8) {
    std::memcpy(out, codes, 32);
    return;
  }
  if (bits >= 4)
    for (int i = 0; i < 16; ++i)
      out[i] = static_cast<Bytes>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  else
    put_two_bits(codes, 0, out);
  if (bits == 6) put_two_bits(codes, 4, out + 16);
  if (bits % 2 == 0) return;
  for (int i = 0; i < 4; ++i) {
    unsigned byte = 0;
    for (int j = 0; j < 8; ++j) byte |= (codes[4 * j + i] >> (bits - 1) & 1U) << j;
    out[4 * (bits - 1) + i] = static_cast<Bytes>(byte);
  }
}
void take_codes(int bits, const Bytes* in, Bytes* codes) {
  std::memset(codes, 0, 32);
  if (bits == 8) {
    std::memcpy(codes, in, 32);
    return;
  }
  if (bits >= 4)
    for (int i = 0; i < 16; ++i) {
      codes[i] = in[i] & 15;
      codes[i + 16] = in[i] >> 4;
    }
  else
    take_two_bits(in, 0, codes);
  if (bits == 6) take_two_bits(in + 16, 4, codes);
  if (bits % 2 == 0) return;
  for (int k = 0; k < 32; ++k)
    codes[k] =
        static_cast<Bytes>(codes[k] | (in[4 * (bits - 1) + k % 4] >> (k / 4) & 1) << (bits - 1));
}

// Elements of an FP8 block, and bytes of its scale.
struct BlockSizeFP8 {
  int elements, scale;
};
BlockSizeFP8 block_size_fp8(DType type) {
  return {info(type).block, type == DType::kMXFP8 ? 1 : static_cast<int>(sizeof(float))};
}

}  // namespace

void pack_affine_panel(DType type, const std::byte* source, const PanelPosition& position,
                       Bytes* out) {
  static constexpr Bytes kZero[128 + 8] = {};
  const AffineFormat format = affine_format(type);
  const int size = format.scale_bytes();
  const int64_t groups = position.cols / format.group;
  for (int64_t g = 0; g < groups; ++g) {
    const Bytes* groups_of[kLanes];
    for (int n = 0; n < kLanes; ++n) {
      const int64_t r = position.index * kLanes + n;
      groups_of[n] = r < position.rows ? reinterpret_cast<const Bytes*>(source) +
                                             (r * groups + g) * format.bytes()
                                       : kZero;
    }
    for (int b = 0; b < format.group; b += 32) {
      Bytes fields[kLanes][32];
      const Bytes* rows[kLanes];
      for (int n = 0; n < kLanes; ++n) {
        Bytes codes[32];
        const Bytes* stream = groups_of[n] + format.codes_at() + b * format.bits / 8;
        unpack_codes(format.bits, stream, 32, codes);
        put_codes(format.bits, codes, fields[n]);
        rows[n] = fields[n];
      }
      interleave(rows, format.bits, out);
      out += 4 * format.bits * kLanes;
    }
    for (int part = 0; part < 2; ++part)  // scales, then biases
      for (int n = 0; n < kLanes; ++n, out += size)
        std::memcpy(out, groups_of[n] + part * size, static_cast<size_t>(size));
  }
}

void decode_affine_row(DType type, const Bytes* panel, int lane, int64_t cols, float* out) {
  const AffineFormat format = affine_format(type);
  for (int64_t k = 0; k < cols; k += format.group) {
    const Bytes* scales = panel + kLanes * format.group * format.bits / 8;
    const float scale = affine_scale(format.scale, scales + lane * format.scale_bytes());
    const float bias = affine_scale(format.scale, scales + (kLanes + lane) * format.scale_bytes());
    for (int b = 0; b < format.group; b += 32, panel += 4 * format.bits * kLanes) {
      Bytes record[32];
      Bytes codes[32];
      take_lane(panel, lane, format.bits, record);
      take_codes(format.bits, record, codes);
      for (int i = 0; i < 32; ++i) out[k + b + i] = scale * static_cast<float>(codes[i]) + bias;
    }
    panel += 2 * kLanes * format.scale_bytes();
  }
}

// In the file a block has its scale before its elements; in a panel the scales come last.
void pack_fp8_panel(DType type, const std::byte* source, const PanelPosition& position,
                    Bytes* out) {
  static constexpr Bytes kZero[sizeof(BlockFP8<128>)] = {};
  const auto [elements, size] = block_size_fp8(type);
  const int64_t blocks = position.cols / elements;
  for (int64_t b = 0; b < blocks; ++b) {
    const Bytes* rows[kLanes];
    for (int n = 0; n < kLanes; ++n) {
      const int64_t r = position.index * kLanes + n;
      const Bytes* block = r < position.rows ? reinterpret_cast<const Bytes*>(source) +
                                                   (r * blocks + b) * (size + elements)
                                             : kZero;
      rows[n] = block + size;
      std::memcpy(out + kLanes * elements + n * size, block, static_cast<size_t>(size));
    }
    interleave(rows, elements / 4, out);
    out += kLanes * (elements + size);
  }
}

void decode_fp8_row(DType type, const Bytes* panel, int lane, int64_t cols, float* out) {
  const auto [elements, size] = block_size_fp8(type);
  Bytes row[128];
  for (int64_t k = 0; k < cols; k += elements, panel += kLanes * (elements + size)) {
    const Bytes* at = panel + kLanes * elements + lane * size;
    const float scale = size == 1 ? e8m0_to_f32(*at) : affine_scale(DType::kF32, at);
    take_lane(panel, lane, elements / 4, row);
    for (int i = 0; i < elements; ++i) out[k + i] = scale * e4m3_to_f32(row[i]);
  }
}

}  // namespace veery

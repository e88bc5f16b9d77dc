#include "kernels/gpu/packing/pack.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "dtype/affine.h"
#include "dtype/code_books.h"
#include "dtype/decode.h"
#include "dtype/fp8.h"

namespace veery::gpu {
namespace {

// A block of any type: its codes and scales.
struct Parts {
  int8_t codes[256];
  uint16_t d = 0, m = 0;           // f16 bits
  float wide = 0, wide_m = 0;      // WeightFormatInfo::wide
  uint8_t scales[16], minima[16];  // has_half_scales(): two scales
};

template <typename Block>
void small(const Block& b, Parts& to) {
  uint8_t codes[32];
  int less = 0;
  if constexpr (requires { b.qh; }) {
    unpack_5bit(b.qs, b.qh, codes);
    less = requires { b.m; }
    ? 0 : 16;
  } else {
    unpack_nibbles(b.qs, codes);
  }
  for (int i = 0; i < 32; ++i) to.codes[i] = static_cast<int8_t>(codes[i] - less);
  to.d = b.d;
  if constexpr (requires { b.m; }) to.m = b.m;
}
void take(const BlockQ4_0& b, Parts& to) { small(b, to); }
void take(const BlockQ4_1& b, Parts& to) { small(b, to); }
void take(const BlockQ5_0& b, Parts& to) { small(b, to); }
void take(const BlockQ5_1& b, Parts& to) { small(b, to); }
void take(const BlockQ8_0& b, Parts& to) {
  std::memcpy(to.codes, b.qs, 32);
  to.d = b.d;
}
void take(const BlockIQ4_NL& b, Parts& to) {
  uint8_t codes[32];
  unpack_nibbles(b.qs, codes);
  const CodeBook book = code_book(DType::kIQ4_NL);
  for (int i = 0; i < 32; ++i) to.codes[i] = book.values[codes[i]];
  to.d = b.d;
}
void take(const BlockMXFP4& b, Parts& to) {
  uint8_t codes[32];
  unpack_nibbles(b.qs, codes);
  for (int i = 0; i < 32; ++i) to.codes[i] = static_cast<int8_t>(codes[i]);
  to.wide = half_e8m0_to_f32(b.e);
}
template <typename Block>
void with_minima(const Block& b, Parts& to) {
  for (int j = 0; j < 8; ++j) scale_min_6bit(b.scales, j, &to.scales[j], &to.minima[j]);
  to.d = b.d;
  to.m = b.dmin;
}
void take(const BlockQ4_K& b, Parts& to) {
  for (int i = 0; i < 256; ++i) to.codes[i] = static_cast<int8_t>(code_q4_k(b, i));
  with_minima(b, to);
}
void take(const BlockQ5_K& b, Parts& to) {
  for (int i = 0; i < 256; ++i) to.codes[i] = static_cast<int8_t>(code_q5_k(b, i));
  with_minima(b, to);
}
void take(const BlockQ2_K& b, Parts& to) {
  for (int i = 0; i < 256; ++i) to.codes[i] = static_cast<int8_t>(code_q2_k(b, i));
  for (int j = 0; j < 16; ++j) to.scales[j] = b.scales[j] & 15, to.minima[j] = b.scales[j] >> 4;
  to.d = b.d;
  to.m = b.dmin;
}
void take(const BlockQ3_K& b, Parts& to) {
  for (int i = 0; i < 256; ++i) to.codes[i] = static_cast<int8_t>(code_q3_k(b, i));
  for (int j = 0; j < 16; ++j) to.scales[j] = static_cast<uint8_t>(scale_q3_k(b.scales, j));
  to.wide = f16_to_f32(b.d);
}
void take(const BlockQ6_K& b, Parts& to) {
  for (int i = 0; i < 256; ++i) to.codes[i] = static_cast<int8_t>(code_q6_k(b, i));
  std::memcpy(to.scales, b.scales, 16);
  to.wide = f16_to_f32(b.d);
}
void take(const BlockQ8_K& b, Parts& to) {
  std::memcpy(to.codes, b.qs, 256);
  std::fill_n(to.scales, 16, uint8_t{1});
  to.wide = b.d;
}
// Codes of a codebook, with its factor.
template <typename Block>
void coded(DType type, const Block& b, Parts& to) {
  CodedBlock parts;
  unpack_block(b, parts);
  std::memcpy(to.codes, parts.values, 256);
  std::memcpy(to.scales, parts.scales, 16);
  to.wide = f16_to_f32(parts.d) * code_book(type).factor;
}

// Writes block `parts` of row n of a panel into its unit.
void write_unit(WeightFormat format, const Parts& parts, int n, std::byte* unit) {
  const WeightFormatInfo f = weight_format_info(format);
  const UnitLayout p = unit_layout(format);
  const int g = n % 8, high = n / 8;
  for (int k = 0; k < f.block; ++k) {
    const int l = 4 * g + k % 16 / 4, half = k % 32 / 16;
    const auto code = static_cast<uint8_t>(parts.codes[k]);
    std::byte* fragment = unit + k / 32 * p.fragment;
    if (f.bits == 8)
      fragment[l * 16 + (2 * half + high) * 4 + k % 4] = static_cast<std::byte>(code);
    else
      fragment[l * 8 + high * 4 + k % 4] |= static_cast<std::byte>(half != 0 ? code << 4 : code);
  }
  const int at = 2 * g + high;
  if (has_half_scales(format)) {
    for (int h = 0; h < 2; ++h) unit[p.d + 4 * g + 2 * h + high] = std::byte{parts.scales[h]};
    return;
  }
  if (f.wide)
    std::memcpy(unit + p.d + 4 * at, &parts.wide, 4);
  else
    std::memcpy(unit + p.d + 2 * at, &parts.d, 2);
  if (f.minima && f.wide)
    std::memcpy(unit + p.m + 4 * at, &parts.wide_m, 4);
  else if (f.minima)
    std::memcpy(unit + p.m + 2 * at, &parts.m, 2);
  if (f.block == 32) return;
  const int each = 256 / f.sub;
  std::memcpy(unit + p.scales + at * each, parts.scales, static_cast<size_t>(each));
  if (f.minima) std::memcpy(unit + p.minima + at * each, parts.minima, static_cast<size_t>(each));
}

template <typename Block, typename Take>
void pack_blocks(WeightFormat format, const std::byte* row, int64_t cols, int n, std::byte* panel,
                 const Take& take_block) {
  const WeightFormatInfo f = weight_format_info(format);
  for (int64_t b = 0; b < cols / f.block; ++b) {
    Block block;
    Parts parts;
    std::memcpy(&block, row + b * static_cast<int64_t>(sizeof block), sizeof block);
    take_block(block, parts);
    write_unit(format, parts, n, panel + b * unit_layout(format).bytes);
  }
}

// Packs MLX groups as blocks of 32 with the same scale and minimum.
void pack_groups(DType type, const std::byte* row, int64_t cols, int n, std::byte* panel) {
  const AffineFormat format = affine_format(type);
  const WeightFormat to = *weight_format(type);
  const auto* at = reinterpret_cast<const uint8_t*>(row);
  for (int64_t k = 0; k < cols; k += format.group, at += format.bytes()) {
    uint8_t codes[128];
    unpack_codes(format.bits, at + format.codes_at(), format.group, codes);
    Parts parts;
    parts.wide = affine_scale(format.scale, at);
    parts.wide_m = affine_scale(format.scale, at + format.scale_bytes());
    for (int b = 0; b < format.group; b += 32) {
      for (int i = 0; i < 32; ++i)
        parts.codes[i] = static_cast<int8_t>(codes[b + i] + weight_format_info(to).less);
      write_unit(to, parts, n, panel + (k + b) / 32 * unit_layout(to).bytes);
    }
  }
}

// Packs blocks of 64 with scales for 16 as two units each. A NaN scale stands for 0, as on the CPU.
void pack_nvfp4(const std::byte* row, int64_t cols, int n, std::byte* panel) {
  constexpr UnitLayout kLayout = unit_layout(kNVFP4);
  for (int64_t k = 0; k < cols; k += 64, row += sizeof(BlockNVFP4)) {
    BlockNVFP4 block;
    std::memcpy(&block, row, sizeof block);
    for (int u = 0; u < 2; ++u, panel += kLayout.bytes) {
      Parts parts;
      for (int i = 0; i < 32; ++i) {
        const int at = 32 * u + i;
        parts.codes[i] =
            static_cast<int8_t>(block.qs[at / 16 * 8 + at % 8] >> at % 16 / 8 * 4 & 15);
      }
      for (int h = 0; h < 2; ++h)
        parts.scales[h] = block.d[2 * u + h] == 0x7f ? 0 : block.d[2 * u + h] & 0x7f;
      write_unit(kNVFP4, parts, n, panel);
    }
  }
}

// Packs e4m3 codes. All scales, one per 32 columns, follow the codes.
template <typename Block>
void pack_fp8(const std::byte* row, int64_t cols, int n, std::byte* panel) {
  constexpr auto kElements = static_cast<int64_t>(sizeof(Block::qs));
  for (int64_t b = 0; b < cols / kElements; ++b) {
    Block block;
    std::memcpy(&block, row + b * static_cast<int64_t>(sizeof block), sizeof block);
    float d = 0;
    if constexpr (requires { block.e; })
      d = e8m0_to_f32(block.e);
    else
      d = block.d;
    for (int64_t i = 0; i < kElements; i += 16)
      std::memcpy(panel + ((b * kElements + i) / 16 * 16 + n) * 16, block.qs + i, 16);
    for (int64_t i = 0; i < kElements; i += 32)
      std::memcpy(panel + cols * 16 + ((b * kElements + i) / 32 * 16 + n) * 4, &d, 4);
  }
}

void pack_floats(WeightFormat format, const std::byte* row, int64_t cols, int n, std::byte* panel) {
  const WeightFormatInfo f = weight_format_info(format);
  const int64_t size = f.bits / 8;
  for (int64_t k = 0; k < cols; k += f.block) {
    const int64_t count = std::min<int64_t>(f.block, cols - k);
    std::memcpy(panel + (k / f.block * 16 + n) * 16, row + k * size,
                static_cast<size_t>(count * size));
  }
}

void pack_bf16(const std::byte* row, int64_t cols, int n, std::byte* panel) {
  for (int64_t k = 0; k < cols; k += 4) {
    const int64_t count = std::min<int64_t>(4, cols - k);
    std::memcpy(panel + k / 16 * 512 + (4 * (n % 8) + k % 16 / 4) * 16 + n / 8 * 8, row + k * 2,
                static_cast<size_t>(count * 2));
  }
}

// Packs row n of a panel.
void pack_row(DType type, const std::byte* row, int64_t cols, int n, std::byte* panel) {
  const WeightFormat format = *weight_format(type);
  if (is_affine(type)) return pack_groups(type, row, cols, n, panel);
  if (type == DType::kNVFP4) return pack_nvfp4(row, cols, n, panel);
  if (type == DType::kMXFP8) return pack_fp8<BlockMXFP8>(row, cols, n, panel);
  if (type == DType::kFP8_32) return pack_fp8<BlockFP8<32>>(row, cols, n, panel);
  if (type == DType::kFP8_128) return pack_fp8<BlockFP8<128>>(row, cols, n, panel);
  if (format == kBF16) return pack_bf16(row, cols, n, panel);
  if (is_fma_format(format)) return pack_floats(format, row, cols, n, panel);
  const auto plain = [&]<typename Block>(const Block&) {
    pack_blocks<Block>(format, row, cols, n, panel, [](const Block& b, Parts& to) { take(b, to); });
  };
  const auto book = [&]<typename Block>(const Block&) {
    pack_blocks<Block>(format, row, cols, n, panel,
                       [&](const Block& b, Parts& to) { coded(type, b, to); });
  };
  switch (type) {
    case DType::kQ4_0: return plain(BlockQ4_0());
    case DType::kQ4_1: return plain(BlockQ4_1());
    case DType::kQ5_0: return plain(BlockQ5_0());
    case DType::kQ5_1: return plain(BlockQ5_1());
    case DType::kQ8_0: return plain(BlockQ8_0());
    case DType::kIQ4_NL: return plain(BlockIQ4_NL());
    case DType::kMXFP4: return plain(BlockMXFP4());
    case DType::kQ2_K: return plain(BlockQ2_K());
    case DType::kQ3_K: return plain(BlockQ3_K());
    case DType::kQ4_K: return plain(BlockQ4_K());
    case DType::kQ5_K: return plain(BlockQ5_K());
    case DType::kQ6_K: return plain(BlockQ6_K());
    case DType::kQ8_K: return plain(BlockQ8_K());
    case DType::kIQ4_XS: return book(BlockIQ4_XS());
    case DType::kIQ3_XXS: return book(BlockIQ3_XXS());
    case DType::kIQ3_S: return book(BlockIQ3_S());
    case DType::kIQ2_XXS: return book(BlockIQ2_XXS());
    case DType::kIQ2_XS: return book(BlockIQ2_XS());
    case DType::kIQ2_S: return book(BlockIQ2_S());
    case DType::kIQ1_S: return book(BlockIQ1_S());
    case DType::kIQ1_M: return book(BlockIQ1_M());
    case DType::kTQ1_0: return book(BlockTQ1_0());
    case DType::kTQ2_0: return book(BlockTQ2_0());
    default: throw Error(ErrorKind::kBug, "{} has no layout for GPUs", info(type).name);
  }
}

}  // namespace

std::optional<WeightFormat> weight_format(DType type) {
  if (is_affine(type)) return affine_format(type).bits <= 4 ? kQ4MW : kQ8MW;
  switch (type) {
    case DType::kF32: return kF32;
    case DType::kF16: return kF16;
    case DType::kBF16: return kBF16;
    case DType::kMXFP8:
    case DType::kFP8_32:
    case DType::kFP8_128: return kF8;
    case DType::kMXFP4: return kMXFP4;
    case DType::kNVFP4: return kNVFP4;
    case DType::kQ8_0:
    case DType::kQ5_0:
    case DType::kIQ4_NL: return kQ8;
    case DType::kQ5_1: return kQ8M;
    case DType::kQ4_0: return kQ4;
    case DType::kQ4_1: return kQ4M;
    case DType::kQ4_K: return kK4M;
    case DType::kQ5_K: return kK8M;
    case DType::kQ2_K: return kK8M16;
    case DType::kQ3_K:
    case DType::kQ6_K:
    case DType::kQ8_K:
    case DType::kIQ4_XS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kTQ1_0:
    case DType::kTQ2_0: return kK8;
    default: return {};
  }
}

ActivationKind activation_kind_for(WeightFormat format, bool tensor_cores) {
  return format == kBF16 && !tensor_cores ? ActivationKind::kF32AsBf16 : activation_kind(format);
}

int64_t panel_bytes(WeightFormat format, int64_t cols) {
  const int64_t block = weight_format_info(format).block;
  if (format == kF8) return (cols + 15) / 16 * 256 + (cols + 31) / 32 * 64;
  return (cols + block - 1) / block * unit_layout(format).bytes;
}

void pack_rows(DType type, const std::byte* rows, int64_t cols, const RowRange& range,
               std::byte* packed) {
  const int64_t panel = panel_bytes(*weight_format(type), cols);
  const auto row = static_cast<int64_t>(byte_size(type, cols));
  for (int64_t r = range.first; r < range.last; ++r) {
    std::byte* to = packed + r / 16 * panel;
    if (r % 16 == 0) std::memset(to, 0, static_cast<size_t>(panel));
    pack_row(type, rows + (r - range.first) * row, cols, static_cast<int>(r % 16), to);
  }
}

}  // namespace veery::gpu

// Packs weights into panels (panels.h), and decodes single rows of panels.
#include <cstring>

#include "base/error.h"
#include "dtype/code_books.h"
#include "dtype/decode.h"
#include "kernels/cpu/panels/packed_codes.h"
#include "kernels/cpu/panels/packed_groups.h"
#include "kernels/cpu/panels/panels.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/kernels.h"

namespace veery {
namespace {

using Bytes = uint8_t;

// One row of a unit: its fields in the order of the panel layout. Each field has whole dwords.
struct Record {
  Bytes fields[256] = {};
};

// Moves bit 4 j + i of a dword to bit j of byte i. bytes_to_bits() is the inverse.
uint32_t bits_to_bytes(uint32_t bits) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t x = (bits >> i) & 0x11111111U;
    x = (x | x >> 3) & 0x03030303U;
    x = (x | x >> 6) & 0x000f000fU;
    x = (x | x >> 12) & 0xffU;
    out |= x << (8 * i);
  }
  return out;
}
uint32_t bytes_to_bits(uint32_t bytes) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t x = (bytes >> (8 * i)) & 0xffU;
    x = (x | x << 12) & 0x000f000fU;
    x = (x | x << 6) & 0x03030303U;
    x = (x | x << 3) & 0x11111111U;
    out |= x << i;
  }
  return out;
}
// Converts 32 bytes, in which bit 4 h + s belongs to strip s of half h, to 2 x 16 bytes [h][i] with
// the bits of element i in the low half and of element i + 16 in the high half. join_strips() is
// the inverse.
void split_strips(const Bytes* bits, Bytes* out) {
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 16; ++i)
      out[16 * h + i] =
          static_cast<Bytes>((bits[i] >> (4 * h) & 15) | (bits[i + 16] >> (4 * h) & 15) << 4);
}
void join_strips(const Bytes* in, Bytes* bits) {
  for (int i = 0; i < 16; ++i) {
    bits[i] = static_cast<Bytes>((in[i] & 15) | (in[16 + i] & 15) << 4);
    bits[i + 16] = static_cast<Bytes>(in[i] >> 4 | (in[16 + i] >> 4) << 4);
  }
}

// Conversion of blocks of a type: to() writes a block to a record, from() reads it back. kFields is
// the size of Record::fields in bytes.
template <typename Block>
struct Packing;

template <typename Block>
struct NibblePacking {
  static constexpr int kFields = 16;
  static void to(const Block& b, Record& r) { std::memcpy(r.fields, b.qs, 16); }
  static void from(const Record& r, Block& b) { std::memcpy(b.qs, r.fields, 16); }
};
template <>
struct Packing<BlockQ4_0> : NibblePacking<BlockQ4_0> {};
template <>
struct Packing<BlockQ4_1> : NibblePacking<BlockQ4_1> {};
template <>
struct Packing<BlockIQ4_NL> : NibblePacking<BlockIQ4_NL> {};
template <>
struct Packing<BlockMXFP4> : NibblePacking<BlockMXFP4> {};
template <typename Block>
struct FiveBitPacking {
  static constexpr int kFields = 20;
  static void to(const Block& b, Record& r) {
    uint32_t high;
    std::memcpy(&high, b.qh, 4);
    high = bits_to_bytes(high);
    std::memcpy(r.fields, b.qs, 16);
    std::memcpy(r.fields + 16, &high, 4);
  }
  static void from(const Record& r, Block& b) {
    uint32_t high;
    std::memcpy(&high, r.fields + 16, 4);
    high = bytes_to_bits(high);
    std::memcpy(b.qs, r.fields, 16);
    std::memcpy(b.qh, &high, 4);
  }
};
template <>
struct Packing<BlockQ5_0> : FiveBitPacking<BlockQ5_0> {};
template <>
struct Packing<BlockQ5_1> : FiveBitPacking<BlockQ5_1> {};
template <>
struct Packing<BlockQ8_0> {
  static constexpr int kFields = 32;
  static void to(const BlockQ8_0& b, Record& r) {
    for (int i = 0; i < 32; ++i) r.fields[i] = static_cast<Bytes>(b.qs[i] ^ 0x80);
  }
  static void from(const Record& r, BlockQ8_0& b) {
    for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<int8_t>(r.fields[i] ^ 0x80);
  }
};
template <>
struct Packing<BlockQ8_K> {
  static constexpr int kFields = 256;
  static void to(const BlockQ8_K& b, Record& r) {
    for (int i = 0; i < 256; ++i) r.fields[i] = static_cast<Bytes>(b.qs[i] ^ 0x80);
  }
  static void from(const Record& r, BlockQ8_K& b) {
    for (int i = 0; i < 256; ++i) b.qs[i] = static_cast<int8_t>(r.fields[i] ^ 0x80);
  }
};
template <>
struct Packing<BlockQ2_K> {
  static constexpr int kFields = 80;
  static void to(const BlockQ2_K& b, Record& r) {
    std::memcpy(r.fields, b.qs, 64);
    for (int i = 0; i < 16; ++i) r.fields[64 + scale_slot(i)] = b.scales[i];
  }
  static void from(const Record& r, BlockQ2_K& b) {
    std::memcpy(b.qs, r.fields, 64);
    for (int i = 0; i < 16; ++i) b.scales[i] = r.fields[64 + scale_slot(i)];
  }
};
template <>
struct Packing<BlockQ3_K> {
  static constexpr int kFields = 112;
  static void to(const BlockQ3_K& b, Record& r) {
    std::memcpy(r.fields, b.qs, 64);
    split_strips(b.hmask, r.fields + 64);
    for (int i = 0; i < 16; ++i)
      r.fields[96 + scale_slot(i)] = static_cast<Bytes>(scale_q3_k(b.scales, i));
  }
  static void from(const Record& r, BlockQ3_K& b) {
    std::memcpy(b.qs, r.fields, 64);
    join_strips(r.fields + 64, b.hmask);
    std::memset(b.scales, 0, sizeof b.scales);
    for (int i = 0; i < 16; ++i) {
      const int scale = static_cast<int8_t>(r.fields[96 + scale_slot(i)]) + 32;
      b.scales[i % 8] = static_cast<Bytes>(b.scales[i % 8] | (scale & 15) << (i < 8 ? 0 : 4));
      b.scales[8 + i % 4] = static_cast<Bytes>(b.scales[8 + i % 4] | (scale >> 4) << (2 * (i / 4)));
    }
  }
};
inline void scales_to(const Bytes* packed, Bytes* scales, Bytes* mins) {
  for (int i = 0; i < 8; ++i) scale_min_6bit(packed, i, scales + i, mins + i);
}
inline void scales_from(const Bytes* scales, const Bytes* mins, Bytes* packed) {
  for (int i = 0; i < 4; ++i) {
    packed[i] = static_cast<Bytes>(scales[i] | (scales[i + 4] >> 4) << 6);
    packed[i + 4] = static_cast<Bytes>(mins[i] | (mins[i + 4] >> 4) << 6);
    packed[i + 8] = static_cast<Bytes>((scales[i + 4] & 15) | (mins[i + 4] & 15) << 4);
  }
}
template <>
struct Packing<BlockQ4_K> {
  static constexpr int kFields = 144;
  static void to(const BlockQ4_K& b, Record& r) {
    std::memcpy(r.fields, b.qs, 128);
    scales_to(b.scales, r.fields + 128, r.fields + 136);
  }
  static void from(const Record& r, BlockQ4_K& b) {
    std::memcpy(b.qs, r.fields, 128);
    scales_from(r.fields + 128, r.fields + 136, b.scales);
  }
};
template <>
struct Packing<BlockQ5_K> {
  static constexpr int kFields = 176;
  static void to(const BlockQ5_K& b, Record& r) {
    std::memcpy(r.fields, b.qs, 128);
    split_strips(b.qh, r.fields + 128);
    scales_to(b.scales, r.fields + 160, r.fields + 168);
  }
  static void from(const Record& r, BlockQ5_K& b) {
    std::memcpy(b.qs, r.fields, 128);
    join_strips(r.fields + 128, b.qh);
    scales_from(r.fields + 160, r.fields + 168, b.scales);
  }
};
template <>
struct Packing<BlockQ6_K> {
  static constexpr int kFields = 208;
  static void to(const BlockQ6_K& b, Record& r) {
    std::memcpy(r.fields, b.ql, 128);
    std::memcpy(r.fields + 128, b.qh, 64);
    for (int i = 0; i < 16; ++i) r.fields[192 + scale_slot(i)] = static_cast<Bytes>(b.scales[i]);
  }
  static void from(const Record& r, BlockQ6_K& b) {
    std::memcpy(b.ql, r.fields, 128);
    std::memcpy(b.qh, r.fields + 128, 64);
    for (int i = 0; i < 16; ++i) b.scales[i] = static_cast<int8_t>(r.fields[192 + scale_slot(i)]);
  }
};

// Calls fn(offset, value, bytes) for each scale or minimum that follows the fields of a unit: f16 d
// and the f16 minimum, f32 d of Q8_K, the byte of MXFP4. Returns their total bytes per row.
template <typename Block, typename Fn>
constexpr int each_tail(Block& b, Fn fn) {
  int at = 0;
  const auto part = [&](auto& value) {
    fn(at * kLanes, &value, sizeof value);
    at += static_cast<int>(sizeof value);
  };
  if constexpr (requires { b.e; })
    part(b.e);
  else
    part(b.d);
  if constexpr (requires { b.m; }) part(b.m);
  if constexpr (requires { b.dmin; }) part(b.dmin);
  return at;
}

template <typename Block>
constexpr int unit_bytes() {
  Block b = {};
  return (Packing<Block>::kFields + each_tail(b, [](int, const void*, size_t) {})) * kLanes;
}

template <typename Block>
void pack_unit(const Block* const* blocks, Bytes* out) {
  using P = Packing<Block>;
  Record records[kLanes];
  const Bytes* rows[kLanes];
  for (int n = 0; n < kLanes; ++n) {
    P::to(*blocks[n], records[n]);
    rows[n] = records[n].fields;
  }
  interleave(rows, P::kFields / 4, out);
  out += P::kFields * kLanes;
  for (int n = 0; n < kLanes; ++n) {
    Block b = *blocks[n];
    each_tail(b, [&](int at, const void* value, size_t bytes) {
      std::memcpy(out + at + static_cast<size_t>(n) * bytes, value, bytes);
    });
  }
}

template <typename Block>
void pack_panel(const std::byte* source, int64_t rows, int64_t cols, int64_t panel, Bytes* out) {
  static constexpr Block kZero = {};
  constexpr int kBlock = sizeof(Block) > 40 ? kSuperBlock : kSmallBlock;
  const int64_t blocks = cols / kBlock;
  const Block* row[kLanes];
  for (int64_t b = 0; b < blocks; ++b) {
    for (int n = 0; n < kLanes; ++n) {
      const int64_t r = panel * kLanes + n;
      row[n] = r < rows ? reinterpret_cast<const Block*>(source) + r * blocks + b : &kZero;
    }
    pack_unit(row, out);
    out += unit_bytes<Block>();
  }
}

template <typename Block>
void decode_panel_row(const Bytes* panel, int lane, int64_t cols, float* out) {
  using P = Packing<Block>;
  constexpr int kBlock = sizeof(Block) > 40 ? kSuperBlock : kSmallBlock;
  for (int64_t k = 0; k < cols; k += kBlock) {
    Record record;
    Block b;
    take_lane(panel, lane, P::kFields / 4, record.fields);
    P::from(record, b);
    const Bytes* tail = panel + P::kFields * kLanes;
    each_tail(b, [&](int at, void* value, size_t bytes) {
      std::memcpy(value, tail + at + static_cast<size_t>(lane) * bytes, bytes);
    });
    panel += unit_bytes<Block>();
    decode_block(b, out + k);
  }
}

// Returns the offset in bytes of column k of a row, if kTogether columns of a row are contiguous.
template <typename T, int kTogether>
constexpr int64_t float_offset(int64_t k, int lane) {
  return ((k / kTogether * kLanes + lane) * kTogether + k % kTogether) *
         static_cast<int64_t>(sizeof(T));
}

template <typename T, int kTogether>
void pack_float_panel(const std::byte* source, int64_t rows, int64_t cols, int64_t panel,
                      Bytes* out) {
  for (int n = 0; n < kLanes; ++n) {
    const int64_t r = panel * kLanes + n;
    const std::byte* row = source + r * cols * static_cast<int64_t>(sizeof(T));
    for (int64_t k = 0; k < (cols + kTogether - 1) / kTogether * kTogether; ++k) {
      T value = 0;
      if (r < rows && k < cols)
        std::memcpy(&value, row + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
      std::memcpy(out + float_offset<T, kTogether>(k, n), &value, sizeof(T));
    }
  }
}

template <typename T, int kTogether, typename Convert>
void decode_float_row(const Bytes* panel, int lane, int64_t cols, Convert convert, float* out) {
  for (int64_t k = 0; k < cols; ++k) {
    T value;
    std::memcpy(&value, panel + float_offset<T, kTogether>(k, lane), sizeof(T));
    out[k] = convert(value);
  }
}

// Calls fn with a null pointer to the block type of `type`.
template <typename Fn>
void with_block(DType type, Fn fn) {
  switch (type) {
    case DType::kQ4_0: return fn(static_cast<BlockQ4_0*>(nullptr));
    case DType::kQ4_1: return fn(static_cast<BlockQ4_1*>(nullptr));
    case DType::kQ5_0: return fn(static_cast<BlockQ5_0*>(nullptr));
    case DType::kQ5_1: return fn(static_cast<BlockQ5_1*>(nullptr));
    case DType::kQ8_0: return fn(static_cast<BlockQ8_0*>(nullptr));
    case DType::kQ2_K: return fn(static_cast<BlockQ2_K*>(nullptr));
    case DType::kQ3_K: return fn(static_cast<BlockQ3_K*>(nullptr));
    case DType::kQ4_K: return fn(static_cast<BlockQ4_K*>(nullptr));
    case DType::kQ5_K: return fn(static_cast<BlockQ5_K*>(nullptr));
    case DType::kQ6_K: return fn(static_cast<BlockQ6_K*>(nullptr));
    case DType::kQ8_K: return fn(static_cast<BlockQ8_K*>(nullptr));
    case DType::kIQ4_NL: return fn(static_cast<BlockIQ4_NL*>(nullptr));
    case DType::kMXFP4: return fn(static_cast<BlockMXFP4*>(nullptr));
    default: throw Error(ErrorKind::kBug, "{} weights have no panel layout", info(type).name);
  }
}

void decode_packed(const Operand& w, int64_t row, float* out) {
  const auto* panel = reinterpret_cast<const Bytes*>(w.data) + row / kLanes * w.stride;
  const int lane = static_cast<int>(row % kLanes);
  const auto same = [](float x) { return x; };
  switch (w.dtype) {
    case DType::kF32: return decode_float_row<float, 1>(panel, lane, w.cols, same, out);
    case DType::kF16: return decode_float_row<uint16_t, 1>(panel, lane, w.cols, f16_to_f32, out);
    case DType::kBF16: return decode_float_row<uint16_t, 2>(panel, lane, w.cols, bf16_to_f32, out);
    default:
      if (w.dtype == DType::kNVFP4) return decode_nvfp4_row(panel, lane, w.cols, out);
      if (is_affine(w.dtype)) return decode_affine_row(w.dtype, panel, lane, w.cols, out);
      if (is_fp8(w.dtype)) return decode_fp8_row(w.dtype, panel, lane, w.cols, out);
      if (is_coded(w.dtype)) return decode_coded_row(w.dtype, panel, lane, w.cols, out);
      with_block(w.dtype, [&](auto* block) {
        decode_panel_row<std::remove_pointer_t<decltype(block)>>(panel, lane, w.cols, out);
      });
  }
}

}  // namespace

bool can_pack(DType type) { return panel_format(type).block > 0; }

size_t panel_bytes(DType type, int64_t cols) {
  const PanelFormat format = panel_format(type);
  if (format.block == 0)
    throw Error(ErrorKind::kBug, "{} weights have no panel layout", info(type).name);
  if (info(type).quantized && cols % format.block != 0)
    throw Error(ErrorKind::kInput, "a weight of type {} has {} columns; must be a multiple of {}",
                info(type).name, cols, format.block);
  return static_cast<size_t>((cols + format.block - 1) / format.block) *
         static_cast<size_t>(format.unit);
}

WeightFormat format_for_argmax(DType type) {
  return {type, type == DType::kQ8_0 ? kSplitFormat : uint8_t{0}};
}

size_t packed_bytes(const WeightFormat& format, int64_t rows, int64_t cols) {
  if (format.panels == kSplitFormat) return static_cast<size_t>(SplitPanels(rows, cols).bytes());
  return static_cast<size_t>((rows + kLanes - 1) / kLanes) * panel_bytes(format.type, cols);
}

void pack_panels(const WeightFormat& format, const std::byte* source, int64_t rows, int64_t cols,
                 std::byte* target, int64_t first, int64_t last) {
  if (format.panels == kSplitFormat)
    return pack_split_panels(source, rows, cols, target, first, last);
  const DType type = format.type;
  const size_t bytes = panel_bytes(type, cols);
  for (int64_t p = first; p < last; ++p) {
    auto* out = reinterpret_cast<Bytes*>(target) + static_cast<size_t>(p) * bytes;
    if (type == DType::kF32)
      pack_float_panel<uint32_t, 1>(source, rows, cols, p, out);
    else if (type == DType::kF16)
      pack_float_panel<uint16_t, 1>(source, rows, cols, p, out);
    else if (type == DType::kBF16)
      pack_float_panel<uint16_t, 2>(source, rows, cols, p, out);
    else if (type == DType::kNVFP4)
      pack_nvfp4_panel(source, {rows, cols, p}, out);
    else if (is_affine(type))
      pack_affine_panel(type, source, {rows, cols, p}, out);
    else if (is_fp8(type))
      pack_fp8_panel(type, source, {rows, cols, p}, out);
    else if (is_coded(type))
      pack_coded_panel(type, source, {rows, cols, p}, out);
    else
      with_block(type, [&](auto* block) {
        pack_panel<std::remove_pointer_t<decltype(block)>>(source, rows, cols, p, out);
      });
  }
}

void decode_row(const Operand& weight, int64_t row, float* out) {
  if (in_panels(weight)) {
    if (weight.format == kSplitFormat) return decode_split_row(weight, row, out);
    const int64_t height = weight.rows / weight.stack;
    return decode_packed(weight.of_stack(row / height), row % height, out);
  }
  const auto cols = static_cast<size_t>(weight.cols);
  decode(weight.dtype, {weight.row<const std::byte>(row), byte_size(weight.dtype, weight.cols)},
         {out, cols});
}

}  // namespace veery

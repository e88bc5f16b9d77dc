#include "kernels/cpu/panels/packed_codes.h"

#include <array>

#include "base/error.h"
#include "kernels/cpu/panels/panels.h"

namespace veery {
namespace {

using Bytes = uint8_t;

// Returns the inverse of a code book: the code of each value, indexed by the value as a byte.
std::array<Bytes, 256> codes_of(const CodeBook& book) {
  std::array<Bytes, 256> codes = {};
  for (int code = (1 << book.bits) - 1; code >= 0; --code)
    codes[static_cast<Bytes>(book.values[code])] = static_cast<Bytes>(code);
  return codes;
}

int field_bytes(const CodeBook& book) {
  return 32 * book.bits + (book.sub == 0 ? 0 : kSuperBlock / book.sub);
}

// Calls fn(i, byte, shift, third byte, third shift) for each code: the position of its lower bits
// and, for 3-bit codes, of its third bit.
template <typename Fn>
void each_code(int bits, Fn fn) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const int strip = i % 128 / 32;
    const int k = i % 32;
    if (bits == 4)
      fn(i, (2 * half + strip / 2) * 32 + k, strip % 2 * 4, 0, 0);
    else
      fn(i, 32 * half + k, 2 * strip, 64 + 16 * half + k % 16, strip + k / 16 * 4);
  }
}

void to_fields(const CodedBlock& b, const CodeBook& book, const std::array<Bytes, 256>& codes,
               Bytes* fields) {
  std::memset(fields, 0, static_cast<size_t>(field_bytes(book)));
  const int low = book.bits == 4 ? 15 : 3;
  each_code(book.bits, [&](int i, int byte, int shift, int third, int third_shift) {
    const int code = codes[static_cast<Bytes>(b.values[i])];
    fields[byte] = static_cast<Bytes>(fields[byte] | (code & low) << shift);
    if (book.bits == 3)
      fields[third] = static_cast<Bytes>(fields[third] | code >> 2 << third_shift);
  });
  Bytes* scales = fields + 32 * book.bits;
  for (int j = 0; j < 16 && book.sub == 16; ++j)
    scales[scale_slot(j)] = static_cast<Bytes>(b.scales[j]);
  for (int j = 0; j < 8 && book.sub == 32; ++j) scales[j] = static_cast<Bytes>(b.scales[2 * j]);
}

void from_fields(const Bytes* fields, const CodeBook& book, CodedBlock& b) {
  const int low = book.bits == 4 ? 15 : 3;
  each_code(book.bits, [&](int i, int byte, int shift, int third, int third_shift) {
    const int upper = book.bits == 3 ? (fields[third] >> third_shift & 1) << 2 : 0;
    b.values[i] = book.values[(fields[byte] >> shift & low) | upper];
  });
  const Bytes* scales = fields + 32 * book.bits;
  for (int j = 0; j < 16; ++j)
    b.scales[j] = static_cast<int8_t>(book.sub == 16   ? scales[scale_slot(j)]
                                      : book.sub == 32 ? scales[j / 2]
                                                       : 1);
}

template <typename Block>
void unpack_block_at(const std::byte* at, CodedBlock& out) {
  Block block;
  std::memcpy(&block, at, sizeof block);
  unpack_block(block, out);
}

using UnpackBlock = void (*)(const std::byte*, CodedBlock&);

UnpackBlock unpack_block_of(DType type) {
  switch (type) {
    case DType::kIQ4_XS: return unpack_block_at<BlockIQ4_XS>;
    case DType::kIQ3_XXS: return unpack_block_at<BlockIQ3_XXS>;
    case DType::kIQ3_S: return unpack_block_at<BlockIQ3_S>;
    case DType::kIQ2_XXS: return unpack_block_at<BlockIQ2_XXS>;
    case DType::kIQ2_XS: return unpack_block_at<BlockIQ2_XS>;
    case DType::kIQ2_S: return unpack_block_at<BlockIQ2_S>;
    case DType::kIQ1_S: return unpack_block_at<BlockIQ1_S>;
    case DType::kIQ1_M: return unpack_block_at<BlockIQ1_M>;
    case DType::kTQ1_0: return unpack_block_at<BlockTQ1_0>;
    case DType::kTQ2_0: return unpack_block_at<BlockTQ2_0>;
    default: throw Error(ErrorKind::kBug, "{} weights have no code book", info(type).name);
  }
}

}  // namespace

void pack_coded_panel(DType type, const std::byte* source, const PanelPosition& position,
                      Bytes* out) {
  const CodeBook book = code_book(type);
  const std::array<Bytes, 256> codes = codes_of(book);
  const UnpackBlock take = unpack_block_of(type);
  const int fields = field_bytes(book);
  const int64_t blocks = position.cols / kSuperBlock;
  Bytes records[kLanes][kSuperBlock];
  const Bytes* rows[kLanes];
  for (int n = 0; n < kLanes; ++n) rows[n] = records[n];
  for (int64_t b = 0; b < blocks; ++b) {
    for (int n = 0; n < kLanes; ++n) {
      const int64_t r = position.index * kLanes + n;
      CodedBlock coded;
      coded.values[0] = 0;
      if (r < position.rows) take(source + (r * blocks + b) * info(type).bytes, coded);
      to_fields(coded, book, codes, records[n]);
      std::memcpy(out + fields * kLanes + 2 * n, &coded.d, 2);
    }
    interleave(rows, fields / 4, out);
    out += panel_format(type).unit;
  }
}

void decode_coded_row(DType type, const Bytes* panel, int lane, int64_t cols, float* out) {
  const CodeBook book = code_book(type);
  const int fields = field_bytes(book);
  for (int64_t k = 0; k < cols; k += kSuperBlock) {
    Bytes record[kSuperBlock];
    CodedBlock coded;
    take_lane(panel, lane, fields / 4, record);
    from_fields(record, book, coded);
    std::memcpy(&coded.d, panel + fields * kLanes + 2 * lane, 2);
    decode_coded(coded, book.factor, out + k);
    panel += panel_format(type).unit;
  }
}

namespace {

constexpr int kHalves = 16 * kLanes;  // offset of the scales, after the nibbles of a unit
constexpr int kNvfp4Unit = panel_format(DType::kNVFP4).unit;

// Extracts elements 32 u to 32 u + 31 of a block in the order of Q4_0, and their two scales.
void half_block(const BlockNVFP4& b, int u, Bytes* nibbles, Bytes* scales) {
  const auto code = [&](int i) { return b.qs[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15; };
  for (int i = 0; i < 16; ++i)
    nibbles[i] = static_cast<Bytes>(code(32 * u + i) | code(32 * u + 16 + i) << 4);
  for (int half = 0; half < 2; ++half) {
    const Bytes scale = b.d[2 * u + half];
    scales[half] = scale == 0x7F ? 0 : scale & 0x7F;
  }
}

}  // namespace

void pack_nvfp4_panel(const std::byte* source, const PanelPosition& position, Bytes* out) {
  const int64_t blocks = position.cols / 64;
  for (int64_t k = 0; k < position.cols; k += 32, out += kNvfp4Unit) {
    Bytes nibbles[kLanes][16] = {};
    const Bytes* rows[kLanes];
    for (int n = 0; n < kLanes; ++n) {
      const int64_t r = position.index * kLanes + n;
      Bytes scales[2] = {};
      BlockNVFP4 block;
      if (r < position.rows) {
        std::memcpy(&block, source + (r * blocks + k / 64) * int64_t{sizeof block}, sizeof block);
        half_block(block, static_cast<int>(k / 32 % 2), nibbles[n], scales);
      }
      rows[n] = nibbles[n];
      for (int half = 0; half < 2; ++half) out[kHalves + kLanes * half + n] = scales[half];
    }
    interleave(rows, 4, out);
  }
}

void decode_nvfp4_row(const Bytes* panel, int lane, int64_t cols, float* out) {
  constexpr CodeBook kBook = code_book(DType::kNVFP4);
  for (int64_t k = 0; k < cols; k += 32, panel += kNvfp4Unit) {
    Bytes nibbles[16];
    take_lane(panel, lane, 4, nibbles);
    for (int i = 0; i < 32; ++i) {
      const auto scale = static_cast<Bytes>(panel[kHalves + kLanes * (i / 16) + lane] | 0x80);
      const int code = nibbles[i % 16] >> (i / 16 * 4) & 15;
      out[k + i] = half_e4m3_to_f32(scale) * static_cast<float>(kBook.values[code]);
    }
  }
}

}  // namespace veery

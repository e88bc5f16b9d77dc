#include "dtype/dtype.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "dtype/affine.h"
#include "dtype/code_books.h"
#include "dtype/decode.h"
#include "dtype/fp8.h"
#include "dtype/half_lanes.h"

namespace veery {
namespace {

using Table = std::array<DTypeInfo, static_cast<size_t>(DType::kCount)>;

constexpr size_t kNameBytes = 20;

/// The names of the affine types, e.g. "affine4_g64_bf16".
constexpr auto kAffineNames = [] {
  std::array<std::array<char, kNameBytes>, kAffineTypes> names = {};
  for (int i = 0; i < kAffineTypes; ++i) {
    const AffineFormat format = affine_format(affine_at(i));
    char* at = names[static_cast<size_t>(i)].data();
    const auto write = [&](std::string_view text) { at = std::copy(text.begin(), text.end(), at); };
    write("affine");
    *at++ = static_cast<char>('0' + format.bits);
    write(format.group == 32 ? "_g32" : format.group == 64 ? "_g64" : "_g128");
    write(format.scale == DType::kF16 ? "_f16" : format.scale == DType::kBF16 ? "_bf16" : "_f32");
  }
  return names;
}();

constexpr Table with_affine(Table table) {
  for (int i = 0; i < kAffineTypes; ++i) {
    const DType type = affine_at(i);
    const AffineFormat format = affine_format(type);
    table[static_cast<size_t>(type)] = {type,           kAffineNames[static_cast<size_t>(i)].data(),
                                        kNotInGgml,     format.group,
                                        format.bytes(), true,
                                        true,           false};
  }
  return table;
}

constexpr Table kTable = with_affine({{
    {DType::kF32, "f32", 0, 1, 4, false, true, true},
    {DType::kF16, "f16", 1, 1, 2, false, true, true},
    {DType::kBF16, "bf16", 30, 1, 2, false, true, true},
    {DType::kF64, "f64", 28, 1, 8, false, true, true},
    {DType::kI8, "i8", 24, 1, 1, false, false, false},
    {DType::kI16, "i16", 25, 1, 2, false, false, false},
    {DType::kI32, "i32", 26, 1, 4, false, false, false},
    {DType::kI64, "i64", 27, 1, 8, false, false, false},
    {DType::kU8, "u8", kNotInGgml, 1, 1, false, false, false},
    {DType::kQ4_0, "q4_0", 2, 32, sizeof(BlockQ4_0), true, true, true},
    {DType::kQ4_1, "q4_1", 3, 32, sizeof(BlockQ4_1), true, true, true},
    {DType::kQ5_0, "q5_0", 6, 32, sizeof(BlockQ5_0), true, true, true},
    {DType::kQ5_1, "q5_1", 7, 32, sizeof(BlockQ5_1), true, true, true},
    {DType::kQ8_0, "q8_0", 8, 32, sizeof(BlockQ8_0), true, true, true},
    {DType::kQ8_1, "q8_1", 9, 32, sizeof(BlockQ8_1), true, true, true},
    {DType::kQ2_K, "q2_K", 10, 256, sizeof(BlockQ2_K), true, true, true},
    {DType::kQ3_K, "q3_K", 11, 256, sizeof(BlockQ3_K), true, true, true},
    {DType::kQ4_K, "q4_K", 12, 256, sizeof(BlockQ4_K), true, true, true},
    {DType::kQ5_K, "q5_K", 13, 256, sizeof(BlockQ5_K), true, true, true},
    {DType::kQ6_K, "q6_K", 14, 256, sizeof(BlockQ6_K), true, true, true},
    {DType::kQ8_K, "q8_K", 15, 256, sizeof(BlockQ8_K), true, true, true},
    {DType::kIQ4_NL, "iq4_nl", 20, 32, sizeof(BlockIQ4_NL), true, true, true},
    {DType::kIQ4_XS, "iq4_xs", 23, 256, sizeof(BlockIQ4_XS), true, true, true},
    {DType::kMXFP4, "mxfp4", 39, 32, sizeof(BlockMXFP4), true, true, true},
    {DType::kNVFP4, "nvfp4", 40, 64, sizeof(BlockNVFP4), true, true, true},
    {DType::kIQ2_XXS, "iq2_xxs", 16, 256, sizeof(BlockIQ2_XXS), true, true, true},
    {DType::kIQ2_XS, "iq2_xs", 17, 256, sizeof(BlockIQ2_XS), true, true, true},
    {DType::kIQ2_S, "iq2_s", 22, 256, sizeof(BlockIQ2_S), true, true, true},
    {DType::kIQ3_XXS, "iq3_xxs", 18, 256, sizeof(BlockIQ3_XXS), true, true, true},
    {DType::kIQ3_S, "iq3_s", 21, 256, sizeof(BlockIQ3_S), true, true, true},
    {DType::kIQ1_S, "iq1_s", 19, 256, sizeof(BlockIQ1_S), true, true, true},
    {DType::kIQ1_M, "iq1_m", 29, 256, sizeof(BlockIQ1_M), true, true, true},
    {DType::kTQ1_0, "tq1_0", 34, 256, sizeof(BlockTQ1_0), true, true, true},
    {DType::kTQ2_0, "tq2_0", 35, 256, sizeof(BlockTQ2_0), true, true, true},
    {DType::kMXFP8, "mxfp8", kNotInGgml, 32, sizeof(BlockMXFP8), false, true, false},
    {DType::kFP8_32, "fp8_32", kNotInGgml, 32, sizeof(BlockFP8<32>), false, true, false},
    {DType::kFP8_128, "fp8_128", kNotInGgml, 128, sizeof(BlockFP8<128>), false, true, false},
    {DType::kQ2_0, "q2_0", 42, 64, sizeof(BlockQ2_0), true, true, true},
}});

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].type != static_cast<DType>(i)) return false;
  return true;
}
static_assert(table_is_in_order());

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Copies each block first, because file contents need not be aligned for the block's members.
template <typename Block, int kElements>
void decode_blocks(std::span<const std::byte> in, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kElements; ++b) {
    Block block;
    std::memcpy(&block, in.data() + b * sizeof block, sizeof block);
    decode_block(block, out.data() + b * kElements);
  }
}

// Decodes blocks of 256 with a code book.
template <typename Block>
void decode_books(DType type, std::span<const std::byte> in, std::span<float> out) {
  const float factor = code_book(type).factor;
  for (size_t b = 0; b < out.size() / kSuperBlock; ++b) {
    Block block;
    CodedBlock coded;
    std::memcpy(&block, in.data() + b * sizeof block, sizeof block);
    unpack_block(block, coded);
    decode_coded(coded, factor, out.data() + b * kSuperBlock);
  }
}

template <typename T, typename Convert>
void decode_plain(std::span<const std::byte> in, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, in.data() + i * sizeof value, sizeof value);
    out[i] = convert(value);
  }
}

}  // namespace

const DTypeInfo& info(DType type) {
  VEERY_CHECK(type < DType::kCount);
  return kTable[static_cast<size_t>(type)];
}

std::optional<DType> dtype_from_ggml(uint32_t ggml) {
  for (const DTypeInfo& row : kTable)
    if (row.ggml == ggml && ggml != kNotInGgml) return row.type;
  return std::nullopt;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : kTable)
    if (std::ranges::equal(row.name, name, {}, lower, lower)) return row.type;
  return std::nullopt;
}

size_t byte_size(DType type, int64_t elements) {
  const DTypeInfo& row = info(type);
  if (elements < 0 || elements % row.block != 0)
    throw Error(ErrorKind::kInput, "{}: found {} elements, expected a multiple of {}", row.name,
                elements, row.block);
  const int64_t blocks = elements / row.block;
  if (blocks > std::numeric_limits<int64_t>::max() / row.bytes)
    throw Error(ErrorKind::kInput, "{}: {} elements need more bytes than 64 bits can count",
                row.name, elements);
  return static_cast<size_t>(blocks * row.bytes);
}

void decode(DType type, std::span<const std::byte> in, std::span<float> out) {
  const size_t needed = byte_size(type, static_cast<int64_t>(out.size()));
  if (in.size() != needed)
    throw Error(ErrorKind::kInput, "decode {}: found {} bytes, expected {} for {} elements",
                info(type).name, in.size(), needed, out.size());
  switch (type) {
    case DType::kF32: return decode_plain<float>(in, out, [](float v) { return v; });
    case DType::kF16:
    case DType::kBF16: return half_converters().front().decode(type, in.data(), out);
    case DType::kF64:
      return decode_plain<double>(in, out, [](double v) { return static_cast<float>(v); });
    case DType::kQ4_0: return decode_blocks<BlockQ4_0, kSmallBlock>(in, out);
    case DType::kQ4_1: return decode_blocks<BlockQ4_1, kSmallBlock>(in, out);
    case DType::kQ5_0: return decode_blocks<BlockQ5_0, kSmallBlock>(in, out);
    case DType::kQ5_1: return decode_blocks<BlockQ5_1, kSmallBlock>(in, out);
    case DType::kQ8_0: return decode_blocks<BlockQ8_0, kSmallBlock>(in, out);
    case DType::kQ8_1: return decode_blocks<BlockQ8_1, kSmallBlock>(in, out);
    case DType::kQ2_K: return decode_blocks<BlockQ2_K, kSuperBlock>(in, out);
    case DType::kQ3_K: return decode_blocks<BlockQ3_K, kSuperBlock>(in, out);
    case DType::kQ4_K: return decode_blocks<BlockQ4_K, kSuperBlock>(in, out);
    case DType::kQ5_K: return decode_blocks<BlockQ5_K, kSuperBlock>(in, out);
    case DType::kQ6_K: return decode_blocks<BlockQ6_K, kSuperBlock>(in, out);
    case DType::kQ8_K: return decode_blocks<BlockQ8_K, kSuperBlock>(in, out);
    case DType::kIQ4_NL: return decode_blocks<BlockIQ4_NL, kSmallBlock>(in, out);
    case DType::kMXFP4: return decode_blocks<BlockMXFP4, kSmallBlock>(in, out);
    case DType::kNVFP4: return decode_blocks<BlockNVFP4, 64>(in, out);
    case DType::kIQ4_XS: return decode_books<BlockIQ4_XS>(type, in, out);
    case DType::kIQ2_XXS: return decode_books<BlockIQ2_XXS>(type, in, out);
    case DType::kIQ2_XS: return decode_books<BlockIQ2_XS>(type, in, out);
    case DType::kIQ2_S: return decode_books<BlockIQ2_S>(type, in, out);
    case DType::kIQ3_XXS: return decode_books<BlockIQ3_XXS>(type, in, out);
    case DType::kIQ3_S: return decode_books<BlockIQ3_S>(type, in, out);
    case DType::kIQ1_S: return decode_books<BlockIQ1_S>(type, in, out);
    case DType::kIQ1_M: return decode_books<BlockIQ1_M>(type, in, out);
    case DType::kTQ1_0: return decode_books<BlockTQ1_0>(type, in, out);
    case DType::kTQ2_0: return decode_books<BlockTQ2_0>(type, in, out);
    case DType::kMXFP8: return decode_blocks<BlockMXFP8, 32>(in, out);
    case DType::kFP8_32: return decode_blocks<BlockFP8<32>, 32>(in, out);
    case DType::kFP8_128: return decode_blocks<BlockFP8<128>, 128>(in, out);
    case DType::kQ2_0: return decode_blocks<BlockQ2_0, 64>(in, out);
    default:
      if (is_affine(type)) return decode_affine(affine_format(type), in, out);
      throw Error(ErrorKind::kUnsupported, "decode: {} holds integers, expected a type of floats",
                  info(type).name);
  }
}

}  // namespace veery

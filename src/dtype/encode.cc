#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "dtype/code_books.h"
#include "dtype/decode.h"
#include "dtype/dtype.h"
#include "dtype/fit.h"
#include "dtype/fit_codes.h"

namespace veery {
namespace {

// Below this every code of every type with an f16 scale decodes to 0, and reciprocals stay finite.
constexpr float kTiny = 1e-12F;

// Index of the element of the largest magnitude.
size_t largest(std::span<const float> x) {
  return static_cast<size_t>(std::ranges::max_element(x, {}, [](float v) { return std::fabs(v); }) -
                             x.begin());
}

// The f16 bits of a scale of the block `x`, which begins at element `first` of the input.
uint16_t stored_scale(float scale, std::span<const float> x, size_t first) {
  const uint16_t bits = f32_to_f16(scale);
  if ((bits & 0x7FFFU) < 0x7C00U) return bits;
  const size_t at = largest(x);
  throw Error(ErrorKind::kInput,
              "encode: element {} is {}: its block needs a scale of {}, expected up to 65504",
              first + at, x[at], scale);
}

void pack_nibbles(const int8_t* codes, uint8_t* qs) {
  for (int i = 0; i < 16; ++i)
    qs[i] = static_cast<uint8_t>((codes[i] & 0x0F) | (codes[i + 16] & 0x0F) << 4);
}

void pack_fifth_bits(const int8_t* codes, uint8_t* qh) {
  std::memset(qh, 0, 4);
  for (int i = 0; i < 32; ++i)
    qh[i / 8] = static_cast<uint8_t>(qh[i / 8] | ((codes[i] >> 4) & 1) << (i % 8));
}

// Codes of a block of 32 for d * q, q in [low, high], and the f16 scale.
uint16_t encode_symmetric(std::span<const float> x, size_t first, CodeRange range, int8_t* codes) {
  const float scale = largest_magnitude(x) < kTiny ? 0 : fit_scale(x, range);
  const uint16_t bits = stored_scale(scale, x, first);
  quantize(x, {f16_to_f32(bits), 0}, range, codes);
  return bits;
}

void encode_block(std::span<const float> x, size_t first, BlockQ4_0& b) {
  int8_t codes[32];
  b.d = encode_symmetric(x, first, {-8, 7}, codes);
  for (int8_t& code : codes) code = static_cast<int8_t>(code + 8);
  pack_nibbles(codes, b.qs);
}

void encode_block(std::span<const float> x, size_t first, BlockQ5_0& b) {
  int8_t codes[32];
  b.d = encode_symmetric(x, first, {-16, 15}, codes);
  for (int8_t& code : codes) code = static_cast<int8_t>(code + 16);
  pack_nibbles(codes, b.qs);
  pack_fifth_bits(codes, b.qh);
}

void encode_block(std::span<const float> x, size_t first, BlockQ8_0& b) {
  b.d = encode_symmetric(x, first, {-127, 127}, b.qs);
}

// The block of 8-bit activations: its scale is the largest magnitude / 127, without a search, so
// that quantising on the fly gives the same bits.
void encode_block(std::span<const float> x, size_t first, BlockQ8_1& b) {
  b.d = stored_scale(largest_magnitude(x) / 127, x, first);
  quantize(x, {f16_to_f32(b.d), 0}, {-127, 127}, b.qs);
  int sum = 0;
  for (const int8_t code : b.qs) sum += code;
  b.s = stored_scale(f16_to_f32(b.d) * static_cast<float>(sum), x, first);
}

struct AffineBits {
  uint16_t d;
  uint16_t m;
};

AffineBits encode_affine(std::span<const float> x, size_t first, CodeRange range, int8_t* codes) {
  const Affine fit = largest_magnitude(x) < kTiny ? Affine{} : fit_affine(x, range, true);
  const AffineBits bits = {stored_scale(fit.scale, x, first), stored_scale(fit.offset, x, first)};
  quantize(x, {f16_to_f32(bits.d), f16_to_f32(bits.m)}, range, codes);
  return bits;
}

void encode_block(std::span<const float> x, size_t first, BlockQ4_1& b) {
  int8_t codes[32];
  const AffineBits bits = encode_affine(x, first, {0, 15}, codes);
  b.d = bits.d;
  b.m = bits.m;
  pack_nibbles(codes, b.qs);
}

void encode_block(std::span<const float> x, size_t first, BlockQ5_1& b) {
  int8_t codes[32];
  const AffineBits bits = encode_affine(x, first, {0, 31}, codes);
  b.d = bits.d;
  b.m = bits.m;
  pack_nibbles(codes, b.qs);
  pack_fifth_bits(codes, b.qh);
}

SuperBlock encode_super(std::span<const float> x, size_t first, const SuperFormat& format) {
  SuperBlock result;
  if (largest_magnitude(x) < kTiny) return result;
  fit_super_block(x, format, result);
  stored_scale(f16_to_f32(result.d), x, first);
  stored_scale(f16_to_f32(result.dmin), x, first);
  return result;
}

// Two-bit fields of Q2_K, Q3_K: element 128 h + 32 s + i in bits 2 s of qs[32 h + i].
void pack_2bit(const int8_t* codes, uint8_t* qs) {
  std::memset(qs, 0, 64);
  for (int i = 0; i < 256; ++i) {
    uint8_t& byte = qs[i / 128 * 32 + i % 32];
    byte = static_cast<uint8_t>(byte | (codes[i] & 3) << (i % 128 / 32 * 2));
  }
}

// Low halves of Q4_K, Q5_K: element 64 c + i low in qs[32 c + i], 64 c + 32 + i high.
void pack_4bit(const int8_t* codes, uint8_t* qs) {
  for (int i = 0; i < 128; ++i) {
    const int8_t* pair = codes + i / 32 * 64 + i % 32;
    qs[i] = static_cast<uint8_t>((pair[0] & 0x0F) | (pair[32] & 0x0F) << 4);
  }
}

// The inverse of scale_min_6bit.
void pack_6bit_scales(const SuperBlock& super, uint8_t* packed) {
  std::memset(packed, 0, 12);
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(super.scales[j] | (super.scales[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(super.mins[j] | (super.mins[j + 4] >> 4) << 6);
    packed[j + 8] =
        static_cast<uint8_t>((super.scales[j + 4] & 0x0F) | (super.mins[j + 4] & 0x0F) << 4);
  }
}

void encode_block(std::span<const float> x, size_t first, BlockQ2_K& b) {
  const SuperBlock super = encode_super(
      x, first, {.sub_block = 16, .codes = {0, 3}, .scales = {0, 15}, .largest_min = 15});
  for (int j = 0; j < 16; ++j)
    b.scales[j] = static_cast<uint8_t>(super.scales[j] | super.mins[j] << 4);
  pack_2bit(super.codes, b.qs);
  b.d = super.d;
  b.dmin = super.dmin;
}

void encode_block(std::span<const float> x, size_t first, BlockQ3_K& b) {
  const SuperBlock super =
      encode_super(x, first, {.sub_block = 16, .codes = {-4, 3}, .scales = {-32, 31}});
  std::memset(&b, 0, sizeof b);
  for (int j = 0; j < 16; ++j) {
    const int scale = super.scales[j] + 32;
    b.scales[j % 8] = static_cast<uint8_t>(b.scales[j % 8] | (scale & 0x0F) << (j < 8 ? 0 : 4));
    b.scales[8 + j % 4] = static_cast<uint8_t>(b.scales[8 + j % 4] | (scale >> 4) << (2 * (j / 4)));
  }
  pack_2bit(super.codes, b.qs);  // -4 and 0 share their low bits
  for (int i = 0; i < 256; ++i)
    if (super.codes[i] >= 0)
      b.hmask[i % 32] = static_cast<uint8_t>(b.hmask[i % 32] | 1U << (i / 32));
  b.d = super.d;
}

void encode_block(std::span<const float> x, size_t first, BlockQ4_K& b) {
  const SuperBlock super = encode_super(
      x, first, {.sub_block = 32, .codes = {0, 15}, .scales = {0, 63}, .largest_min = 63});
  pack_6bit_scales(super, b.scales);
  pack_4bit(super.codes, b.qs);
  b.d = super.d;
  b.dmin = super.dmin;
}

void encode_block(std::span<const float> x, size_t first, BlockQ5_K& b) {
  const SuperBlock super = encode_super(
      x, first, {.sub_block = 32, .codes = {0, 31}, .scales = {0, 63}, .largest_min = 63});
  pack_6bit_scales(super, b.scales);
  pack_4bit(super.codes, b.qs);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 256; ++i)
    b.qh[i % 32] = static_cast<uint8_t>(b.qh[i % 32] | ((super.codes[i] >> 4) & 1) << (i / 32));
  b.d = super.d;
  b.dmin = super.dmin;
}

void encode_block(std::span<const float> x, size_t first, BlockQ6_K& b) {
  const SuperBlock super =
      encode_super(x, first, {.sub_block = 16, .codes = {-32, 31}, .scales = {-128, 127}});
  std::memset(&b, 0, sizeof b);
  for (int i = 0; i < 256; ++i) {
    const int code = super.codes[i] + 32;
    const int half = i / 128;
    const int strip = i % 128 / 32;
    uint8_t& low = b.ql[half * 64 + strip % 2 * 32 + i % 32];
    uint8_t& high = b.qh[half * 32 + i % 32];
    low = static_cast<uint8_t>(low | (code & 0x0F) << (strip < 2 ? 0 : 4));
    high = static_cast<uint8_t>(high | (code >> 4) << (2 * strip));
  }
  for (int j = 0; j < 16; ++j) b.scales[j] = static_cast<int8_t>(super.scales[j]);
  b.d = super.d;
}

// Activations, as Q8_1.
void encode_block(std::span<const float> x, size_t, BlockQ8_K& b) {
  const float magnitude = largest_magnitude(x);
  b.d = magnitude < 1e-30F ? 0 : magnitude / 127;
  quantize(x, {b.d, 0}, {-127, 127}, b.qs);
  for (int j = 0; j < 16; ++j) {
    int sum = 0;
    for (int i = 16 * j; i < 16 * j + 16; ++i) sum += b.qs[i];
    b.bsums[j] = static_cast<int16_t>(sum);
  }
}

constexpr Book kIQ4Book = [] {
  Book book = {};
  constexpr CodeBook kCodes = code_book(DType::kIQ4_NL);
  for (size_t i = 0; i < book.size(); ++i) book[i] = kCodes.values[i];
  return book;
}();

void encode_block(std::span<const float> x, size_t first, BlockIQ4_NL& b) {
  const float scale = largest_magnitude(x) < kTiny ? 0 : fit_book_scale(x, kIQ4Book);
  b.d = stored_scale(scale, x, first);
  int8_t codes[32];
  quantize_to_book(x, f16_to_f32(b.d), kIQ4Book, codes);
  pack_nibbles(codes, b.qs);
}

void encode_block(std::span<const float> x, size_t first, BlockIQ4_XS& b) {
  SuperBlock super;
  if (largest_magnitude(x) >= kTiny) fit_book_super_block(x, kIQ4Book, super);
  std::memset(&b, 0, sizeof b);
  b.d = stored_scale(f16_to_f32(super.d), x, first);
  for (int j = 0; j < 8; ++j) {
    const int scale = super.scales[j] + 32;
    b.scales_l[j / 2] = static_cast<uint8_t>(b.scales_l[j / 2] | (scale & 15) << (j % 2 * 4));
    b.scales_h = static_cast<uint16_t>(b.scales_h | scale >> 4 << (2 * j));
    pack_nibbles(super.codes + 32 * j, b.qs + 16 * j);
  }
}

// Codes of FP4 for the half scale `half`, and the squared error.
double nearest_fp4(std::span<const float> x, float half, int8_t* codes) {
  constexpr CodeBook kBook = code_book(DType::kMXFP4);
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float magnitude = std::fabs(x[i]);
    int code = 0;
    while (code < 7 &&
           magnitude >
               half * 0.5F * static_cast<float>(kBook.values[code] + kBook.values[code + 1]))
      ++code;
    const double left = magnitude - half * static_cast<float>(kBook.values[code]);
    error += left * left;
    codes[i] = static_cast<int8_t>(code | (code > 0 && x[i] < 0 ? 8 : 0));
  }
  return error;
}

// Tries the power of two with which the largest element is in reach, and its neighbours.
void encode_block(std::span<const float> x, size_t, BlockMXFP4& b) {
  const float magnitude = largest_magnitude(x);
  const int top = magnitude < kTiny ? 0 : std::ilogb(magnitude) - 2 + 127;
  double best = std::numeric_limits<double>::infinity();
  int8_t codes[32];
  int8_t kept[32] = {};
  for (int e = std::max(top - 1, 0); e <= std::min(top + 1, 254); ++e) {
    const double error = nearest_fp4(x, half_e8m0_to_f32(static_cast<uint8_t>(e)), codes);
    if (error >= best) continue;
    best = error;
    b.e = static_cast<uint8_t>(e);
    std::copy(std::begin(codes), std::end(codes), kept);
  }
  pack_nibbles(kept, b.qs);
}

// -1, 0 and 1 for d = the largest magnitude, as models are trained that have such weights.
uint16_t encode_ternary(std::span<const float> x, size_t first, int8_t* codes) {
  const float magnitude = largest_magnitude(x);
  const uint16_t d = stored_scale(magnitude < kTiny ? 0 : magnitude, x, first);
  quantize(x, {f16_to_f32(d), 0}, {-1, 1}, codes);
  return d;
}

void encode_block(std::span<const float> x, size_t first, BlockTQ1_0& b) {
  int8_t codes[256];
  b.d = encode_ternary(x, first, codes);
  // Five digits starting at `at`, `step` apart, as a fraction of 3^5 in units of 1/256, rounded up.
  const auto digits = [&](int at, int step, int count) {
    int number = 0;
    for (int k = 0; k < 5; ++k) number = 3 * number + (k < count ? codes[at + step * k] + 1 : 0);
    return static_cast<uint8_t>((number * 256 + 242) / 243);
  };
  for (int i = 0; i < 32; ++i) b.qs[i] = digits(i, 32, 5);
  for (int i = 0; i < 16; ++i) b.qs[32 + i] = digits(160 + i, 16, 5);
  for (int i = 0; i < 4; ++i) b.qh[i] = digits(240 + i, 4, 4);
}

void encode_block(std::span<const float> x, size_t first, BlockTQ2_0& b) {
  int8_t codes[256];
  b.d = encode_ternary(x, first, codes);
  for (int8_t& code : codes) ++code;
  pack_2bit(codes, b.qs);
}

template <typename Block, int kElements>
void encode_blocks(std::span<const float> in, std::span<std::byte> out) {
  for (size_t i = 0; i < in.size() / kElements; ++i) {
    Block block;
    encode_block(in.subspan(i * kElements, kElements), i * kElements, block);
    std::memcpy(out.data() + i * sizeof block, &block, sizeof block);
  }
}

template <typename T, typename Convert>
void encode_plain(std::span<const float> in, std::span<std::byte> out, Convert convert) {
  for (size_t i = 0; i < in.size(); ++i) {
    const T value = convert(in[i]);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
}

// Also refuses what no f16 scale can reach, so that squares stay finite in the search.
void check_range(DType type, std::span<const float> in) {
  const float limit = type == DType::kQ8_K ? std::numeric_limits<float>::max() : 1e12F;
  for (size_t i = 0; i < in.size(); ++i)
    if (!(std::fabs(in[i]) <= limit))
      throw Error(ErrorKind::kInput,
                  "encode {}: element {} is {}, expected a finite number up to {:.2g}",
                  info(type).name, i, in[i], limit);
}

}  // namespace

void encode(DType type, std::span<const float> in, std::span<std::byte> out) {
  const size_t needed = byte_size(type, static_cast<int64_t>(in.size()));
  if (out.size() != needed)
    throw Error(ErrorKind::kInput,
                "encode {}: found room for {} bytes, expected {} for {} elements", info(type).name,
                out.size(), needed, in.size());
  if (info(type).quantized) check_range(type, in);
  switch (type) {
    case DType::kF32: return encode_plain<float>(in, out, [](float v) { return v; });
    case DType::kF16: return encode_plain<uint16_t>(in, out, f32_to_f16);
    case DType::kBF16: return encode_plain<uint16_t>(in, out, f32_to_bf16);
    case DType::kF64: return encode_plain<double>(in, out, [](float v) { return double{v}; });
    case DType::kQ4_0: return encode_blocks<BlockQ4_0, kSmallBlock>(in, out);
    case DType::kQ4_1: return encode_blocks<BlockQ4_1, kSmallBlock>(in, out);
    case DType::kQ5_0: return encode_blocks<BlockQ5_0, kSmallBlock>(in, out);
    case DType::kQ5_1: return encode_blocks<BlockQ5_1, kSmallBlock>(in, out);
    case DType::kQ8_0: return encode_blocks<BlockQ8_0, kSmallBlock>(in, out);
    case DType::kQ8_1: return encode_blocks<BlockQ8_1, kSmallBlock>(in, out);
    case DType::kQ2_K: return encode_blocks<BlockQ2_K, kSuperBlock>(in, out);
    case DType::kQ3_K: return encode_blocks<BlockQ3_K, kSuperBlock>(in, out);
    case DType::kQ4_K: return encode_blocks<BlockQ4_K, kSuperBlock>(in, out);
    case DType::kQ5_K: return encode_blocks<BlockQ5_K, kSuperBlock>(in, out);
    case DType::kQ6_K: return encode_blocks<BlockQ6_K, kSuperBlock>(in, out);
    case DType::kQ8_K: return encode_blocks<BlockQ8_K, kSuperBlock>(in, out);
    case DType::kIQ4_NL: return encode_blocks<BlockIQ4_NL, kSmallBlock>(in, out);
    case DType::kIQ4_XS: return encode_blocks<BlockIQ4_XS, kSuperBlock>(in, out);
    case DType::kMXFP4: return encode_blocks<BlockMXFP4, kSmallBlock>(in, out);
    case DType::kTQ1_0: return encode_blocks<BlockTQ1_0, kSuperBlock>(in, out);
    case DType::kTQ2_0: return encode_blocks<BlockTQ2_0, kSuperBlock>(in, out);
    default:
      throw Error(ErrorKind::kUnsupported, "encode: {} is not a type that floats are encoded to",
                  info(type).name);
  }
}

}  // namespace veery

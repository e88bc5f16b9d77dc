#include "dtype/encode_lanes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "dtype/code_books.h"
#include "dtype/pack_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/encode_lanes.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
#include <hwy/foreach_target.h>
//
#include "dtype/fit-inl.h"
#include "dtype/fit_book-inl.h"
#include "dtype/fit_grid-inl.h"
#include "dtype/fit_super-inl.h"

#ifndef VEERY_DTYPE_ENCODE_LANES_CC
#define VEERY_DTYPE_ENCODE_LANES_CC
namespace veery {

inline constexpr Book kIQ4Book = [] {
  Book book = {};
  constexpr CodeBook kCodes = code_book(DType::kIQ4_NL);
  for (size_t i = 0; i < book.size(); ++i) book[i] = kCodes.values[i];
  return book;
}();

struct EncodeJob {
  std::span<const float> in;
  const float* weights;
  size_t row;
  std::byte* out;
};

inline bool fits_half(float scale) { return (f32_to_f16(scale) & 0x7FFFU) < 0x7C00U; }

/// The weights of `count` elements from element `at`, in `buffer` where rows end between them.
inline const float* weights_at(const EncodeJob& job, size_t at, size_t count, float* buffer) {
  if (job.weights == nullptr) return nullptr;
  const size_t begin = at % job.row;
  if (begin + count <= job.row) return job.weights + begin;
  for (size_t i = 0; i < count; ++i) buffer[i] = job.weights[(begin + i) % job.row];
  return buffer;
}

}  // namespace veery
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Calls body(blocks, first block, how many) for all blocks of kSize, kGroup of them together at
/// least; it returns the first one whose scale does not fit, or -1.
template <int kSize, int kGroup, typename Body>
size_t for_lanes(const EncodeJob& job, const Body& body) {
  const size_t count = job.in.size() / kSize;
  for (size_t at = 0; at < count; at += kLanes) {
    const size_t lanes = std::min<size_t>(kLanes, count - at);
    float buffer[kLanes * kSize];
    Blocks<kSize> blocks;
    blocks.read(job.in.data() + at * kSize, weights_at(job, at * kSize, lanes * kSize, buffer),
                static_cast<int>(lanes));
    const int bad = body(blocks, at / kGroup, static_cast<int>(lanes) / kGroup);
    if (bad >= 0) return (at + static_cast<size_t>(bad * kGroup)) * kSize;
  }
  return job.in.size();
}

template <typename Block>
void put(const EncodeJob& job, size_t index, const Block& block) {
  std::memcpy(job.out + index * sizeof block, &block, sizeof block);
}

// Blocks of 32 with a scale, and an offset where kAffine.
template <typename Block, bool kAffine>
size_t encode_small(const EncodeJob& job, CodeRange range, int zero) {
  return for_lanes<32, 1>(job, [&](const Blocks<32>& b, size_t first, int count) HWY_ATTR {
    Affine map = {};
    if (kAffine)
      map = AffineFit<32>(b, range, true).run();
    else
      map.scale = fit_scale(b, range);
    map = {rounded_to_half(map.scale), rounded_to_half(map.offset)};
    V lanes[32];
    quantize(b, map, range, lanes);
    for (V& code : lanes) code += static_cast<float>(zero);
    int8_t codes[kLanes * 32];
    write_codes<32>(lanes, codes);
    float scale[kLanes], offset[kLanes];
    store(map.scale, scale);
    store(map.offset, offset);
    for (int j = 0; j < count; ++j) {
      if (!fits_half(scale[j]) || !fits_half(offset[j])) return j;
      Block block;
      pack(scale[j], offset[j], codes + 32 * j, block);
      put(job, first + static_cast<size_t>(j), block);
    }
    return -1;
  });
}

template <typename Block>
int put_super(const EncodeJob& job, const SuperBlock* super, size_t first, int count) {
  for (int k = 0; k < count; ++k) {
    if (!fits_half(super[k].d) || !fits_half(super[k].dmin)) return k;
    Block block;
    pack(super[k], block);
    put(job, first + static_cast<size_t>(k), block);
  }
  return -1;
}

template <typename Block, int kSub>
size_t encode_super(const EncodeJob& job, const SuperFormat& format) {
  return for_lanes<kSub, 256 / kSub>(job,
                                     [&](const Blocks<kSub>& b, size_t first, int count) HWY_ATTR {
                                       SuperBlock super[SuperFit<kSub>::kBlocks];
                                       SuperFit<kSub>(b, format).run(super);
                                       return put_super<Block>(job, super, first, count);
                                     });
}

size_t encode_iq4_nl(const EncodeJob& job) {
  return for_lanes<32, 1>(job, [&](const Blocks<32>& b, size_t first, int count) HWY_ATTR {
    const V fit = rounded_to_half(fit_book_scale(b, kIQ4Book));
    V lanes[32];
    quantize_to_book(b, kIQ4Book, fit, lanes);
    int8_t codes[kLanes * 32];
    write_codes<32>(lanes, codes);
    float scale[kLanes];
    store(fit, scale);
    for (int j = 0; j < count; ++j) {
      if (!fits_half(scale[j])) return j;
      BlockIQ4_NL block;
      pack(scale[j], 0, codes + 32 * j, block);
      put(job, first + static_cast<size_t>(j), block);
    }
    return -1;
  });
}

size_t encode_iq4_xs(const EncodeJob& job) {
  return for_lanes<32, 8>(job, [&](const Blocks<32>& b, size_t first, int count) HWY_ATTR {
    SuperBlock super[kLanes / 8];
    BookFit(b, kIQ4Book).run(super);
    return put_super<BlockIQ4_XS>(job, super, first, count);
  });
}

// The power of two with which the largest element is in reach, and its neighbours.
size_t encode_mxfp4(const EncodeJob& job) {
  return for_lanes<32, 1>(job, [&](const Blocks<32>& b, size_t first, int count) HWY_ATTR {
    float largest[kLanes];
    store(b.largest(), largest);
    int exponents[kLanes];
    for (int j = 0; j < kLanes; ++j)
      exponents[j] = largest[j] < 1e-12F ? 0 : std::clamp(std::ilogb(largest[j]) - 3 + 127, 0, 252);
    uint8_t scales[kLanes];
    int8_t codes[kLanes * 32];
    fit_fp4(
        b, exponents, 3, [](int e) { return half_e8m0_to_f32(static_cast<uint8_t>(e)); }, scales,
        codes);
    for (int j = 0; j < count; ++j) {
      BlockMXFP4 block;
      block.e = scales[j];
      pack_nibbles(codes + 32 * j, block.qs);
      put(job, first + static_cast<size_t>(j), block);
    }
    return -1;
  });
}

// The 8-bit float with which the largest element is the largest value, and some around it.
size_t encode_nvfp4(const EncodeJob& job) {
  constexpr int kBelow = 8, kAbove = 4, kLargest = 126;
  return for_lanes<16, 4>(job, [&](const Blocks<16>& b, size_t first, int count) HWY_ATTR {
    const auto half_of = [](int code) { return half_e4m3_to_f32(static_cast<uint8_t>(code)); };
    float largest[kLanes];
    store(b.largest(), largest);
    int starts[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      int code = 0;
      for (int step = 64; step > 0; step /= 2)  // the largest code that does not reach 12 * half
        if (code + step <= kLargest && half_of(code + step) * 12 <= largest[j]) code += step;
      if (code == kLargest && largest[j] > half_of(kLargest) * 16) return j / 4;
      starts[j] = std::clamp(code - kBelow, 0, kLargest - kBelow - kAbove);
    }
    uint8_t scales[kLanes];
    int8_t codes[kLanes * 16];
    fit_fp4(b, starts, kBelow + kAbove + 1, half_of, scales, codes);
    for (int k = 0; k < count; ++k) {
      BlockNVFP4 block;
      std::memcpy(block.d, scales + 4 * k, 4);
      for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 8; ++i) {
          const int8_t* pair = codes + 64 * k + 16 * j + i;
          block.qs[8 * j + i] = static_cast<uint8_t>(pair[0] | pair[8] << 4);
        }
      put(job, first + static_cast<size_t>(k), block);
    }
    return -1;
  });
}

template <typename Block>
size_t encode_ternary(const EncodeJob& job) {
  return for_lanes<256, 1>(job, [&](const Blocks<256>& b, size_t first, int count) HWY_ATTR {
    constexpr CodeRange kRange = {-1, 1};
    const V fit = rounded_to_half(fit_scale(b, kRange));
    V lanes[256];
    quantize(b, {fit, V{}}, kRange, lanes);
    int8_t codes[kLanes * 256];
    write_codes<256>(lanes, codes);
    float scale[kLanes];
    store(fit, scale);
    for (int j = 0; j < count; ++j) {
      if (!fits_half(scale[j])) return j;
      Block block;
      pack(scale[j], codes + 256 * j, block);
      put(job, first + static_cast<size_t>(j), block);
    }
    return -1;
  });
}

template <typename Block, int kElements, int kDigits>
size_t encode_grid(const EncodeJob& job, DType type) {
  const GridFormat& format = grid_format(type);
  for (size_t at = 0; at < job.in.size(); at += 256) {
    float buffer[256];
    GridBlock grid;
    GridFit<kElements, kDigits>(format, job.in.data() + at, weights_at(job, at, 256, buffer))
        .run(grid);
    if (!fits_half(grid.d)) return at;
    Block block;
    pack(grid, block);
    put(job, at / 256, block);
  }
  return job.in.size();
}

size_t encode_blocks(DType type, std::span<const float> in, const float* weights, size_t row,
                     std::byte* out) {
  const EncodeJob job = {in, weights, row, out};
  switch (type) {
    case DType::kQ4_0: return encode_small<BlockQ4_0, false>(job, {-8, 7}, 8);
    case DType::kQ4_1: return encode_small<BlockQ4_1, true>(job, {0, 15}, 0);
    case DType::kQ5_0: return encode_small<BlockQ5_0, false>(job, {-16, 15}, 16);
    case DType::kQ5_1: return encode_small<BlockQ5_1, true>(job, {0, 31}, 0);
    case DType::kQ8_0: return encode_small<BlockQ8_0, false>(job, {-127, 127}, 0);
    case DType::kQ2_K: return encode_super<BlockQ2_K, 16>(job, {{0, 3}, {0, 15}, 15});
    case DType::kQ3_K: return encode_super<BlockQ3_K, 16>(job, {{-4, 3}, {-32, 31}});
    case DType::kQ4_K: return encode_super<BlockQ4_K, 32>(job, {{0, 15}, {0, 63}, 63});
    case DType::kQ5_K: return encode_super<BlockQ5_K, 32>(job, {{0, 31}, {0, 63}, 63});
    case DType::kQ6_K: return encode_super<BlockQ6_K, 16>(job, {{-32, 31}, {-128, 127}});
    case DType::kIQ4_NL: return encode_iq4_nl(job);
    case DType::kIQ4_XS: return encode_iq4_xs(job);
    case DType::kMXFP4: return encode_mxfp4(job);
    case DType::kNVFP4: return encode_nvfp4(job);
    case DType::kTQ1_0: return encode_ternary<BlockTQ1_0>(job);
    case DType::kTQ2_0: return encode_ternary<BlockTQ2_0>(job);
    case DType::kIQ2_XXS: return encode_grid<BlockIQ2_XXS, 8, 3>(job, type);
    case DType::kIQ2_XS: return encode_grid<BlockIQ2_XS, 8, 3>(job, type);
    case DType::kIQ2_S: return encode_grid<BlockIQ2_S, 8, 3>(job, type);
    case DType::kIQ3_XXS: return encode_grid<BlockIQ3_XXS, 4, 8>(job, type);
    case DType::kIQ3_S: return encode_grid<BlockIQ3_S, 4, 8>(job, type);
    case DType::kIQ1_S: return encode_grid<BlockIQ1_S, 8, 3>(job, type);
    case DType::kIQ1_M: return encode_grid<BlockIQ1_M, 8, 3>(job, type);
    default:
      throw Error(ErrorKind::kUnsupported, "encode: {} is not a type that floats are encoded to",
                  info(type).name);
  }
}

}  // namespace

LaneEncoder lane_encoder() { return encode_blocks; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const std::vector<LaneEncoder>& lane_encoders() {
  static const std::vector<LaneEncoder> kEncoders = [] {
    std::vector<LaneEncoder> encoders;
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2
    const int64_t supported = hwy::SupportedTargets();
    if ((supported & HWY_AVX3) != 0) encoders.push_back(N_AVX3::lane_encoder());
    if ((supported & HWY_AVX2) != 0) encoders.push_back(N_AVX2::lane_encoder());
#endif
    encoders.push_back(HWY_NAMESPACE::lane_encoder());
    return encoders;
  }();
  return kEncoders;
}

}  // namespace veery
#endif

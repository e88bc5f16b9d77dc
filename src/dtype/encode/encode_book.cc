// encode_book.cc: encoders of blocks with a code book.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/encode/encode_book.cc"
#include "dtype/lane_targets.h"
//
#include "dtype/code_books.h"
#include "dtype/encode/encode_lanes-inl.h"
#include "dtype/encode/fit_book-inl.h"

#ifndef VEERY_DTYPE_ENCODE_BOOK_CC
#define VEERY_DTYPE_ENCODE_BOOK_CC
namespace veery {

inline constexpr Book kIQ4Book = [] {
  Book book = {};
  constexpr CodeBook kCodes = code_book(DType::kIQ4_NL);
  for (size_t i = 0; i < book.size(); ++i) book[i] = kCodes.values[i];
  return book;
}();

}  // namespace veery
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

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

// Tries three powers of two as the scale, around the one that just reaches the largest element.
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

// Tries the 8-bit float scale that maps the largest value of the book to the largest element, and
// scales near it.
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

size_t encode_blocks(DType type, const EncodeJob& job) {
  switch (type) {
    case DType::kIQ4_NL: return encode_iq4_nl(job);
    case DType::kIQ4_XS: return encode_iq4_xs(job);
    case DType::kMXFP4: return encode_mxfp4(job);
    default: VEERY_CHECK(type == DType::kNVFP4); return encode_nvfp4(job);
  }
}

}  // namespace

LaneEncoder book_encoder() { return encode_blocks; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const LaneEncoders& book_encoders() {
  static const LaneEncoders kEncoders = VEERY_LANE_COPIES(book_encoder);
  return kEncoders;
}

}  // namespace veery
#endif

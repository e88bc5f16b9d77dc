// encode_small.cc: encoders of blocks of 32 with a scale, and optionally an offset.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/encode/encode_small.cc"
#include "dtype/lane_targets.h"
//
#include "dtype/encode/encode_lanes-inl.h"
#include "dtype/encode/fit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Encodes blocks of 32 with a scale and, if kAffine, an offset.
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

size_t encode_blocks(DType type, const EncodeJob& job) {
  switch (type) {
    case DType::kQ4_0: return encode_small<BlockQ4_0, false>(job, {-8, 7}, 8);
    case DType::kQ4_1: return encode_small<BlockQ4_1, true>(job, {0, 15}, 0);
    case DType::kQ5_0: return encode_small<BlockQ5_0, false>(job, {-16, 15}, 16);
    case DType::kQ5_1: return encode_small<BlockQ5_1, true>(job, {0, 31}, 0);
    default:
      VEERY_CHECK(type == DType::kQ8_0);
      return encode_small<BlockQ8_0, false>(job, {-127, 127}, 0);
  }
}

}  // namespace

LaneEncoder small_encoder() { return encode_blocks; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const LaneEncoders& small_encoders() {
  static const LaneEncoders kEncoders = VEERY_LANE_COPIES(small_encoder);
  return kEncoders;
}

}  // namespace veery
#endif

// encode_ternary.cc: encoders of ternary blocks of 256 (-1, 0, 1) and of blocks of 64 (-1 to 2).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/encode/encode_ternary.cc"
#include "dtype/lane_targets.h"
//
#include "dtype/encode/encode_lanes-inl.h"
#include "dtype/encode/fit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

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

// Tries both signs of the scale, because the codes reach further on one side of 0.
size_t encode_q2(const EncodeJob& job) {
  return for_lanes<64, 1>(job, [&](const Blocks<64>& b, size_t first, int count) HWY_ATTR {
    constexpr CodeRange kRange = {-1, 2}, kMirrored = {-2, 1};
    const V one = rounded_to_half(fit_scale(b, kRange));
    const V other = rounded_to_half(V{} - fit_scale(b, kMirrored));
    const I better = squared_error(b, {other, V{}}, kRange) < squared_error(b, {one, V{}}, kRange);
    const V fit = select(better, other, one);
    V lanes[64];
    quantize(b, {fit, V{}}, kRange, lanes);
    int8_t codes[kLanes * 64];
    write_codes<64>(lanes, codes);
    float scale[kLanes];
    store(fit, scale);
    for (int j = 0; j < count; ++j) {
      if (!fits_half(scale[j])) return j;
      BlockQ2_0 block;
      pack(scale[j], codes + 64 * j, block);
      put(job, first + static_cast<size_t>(j), block);
    }
    return -1;
  });
}

size_t encode_blocks(DType type, const EncodeJob& job) {
  switch (type) {
    case DType::kQ2_0: return encode_q2(job);
    case DType::kTQ1_0: return encode_ternary<BlockTQ1_0>(job);
    default: VEERY_CHECK(type == DType::kTQ2_0); return encode_ternary<BlockTQ2_0>(job);
  }
}

}  // namespace

LaneEncoder ternary_encoder() { return encode_blocks; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const LaneEncoders& ternary_encoders() {
  static const LaneEncoders kEncoders = VEERY_LANE_COPIES(ternary_encoder);
  return kEncoders;
}

}  // namespace veery
#endif

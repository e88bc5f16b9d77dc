// encode_super.cc: encoders of blocks of 256 whose sub-blocks have integer scales.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/encode/encode_super.cc"
#include "dtype/lane_targets.h"
//
#include "dtype/encode/encode_lanes-inl.h"
#include "dtype/encode/fit_super-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

template <typename Block, int kSub>
size_t encode_super(const EncodeJob& job, const SuperFormat& format) {
  return for_lanes<kSub, 256 / kSub>(job,
                                     [&](const Blocks<kSub>& b, size_t first, int count) HWY_ATTR {
                                       SuperBlock super[SuperFit<kSub>::kBlocks];
                                       SuperFit<kSub>(b, format).run(super);
                                       return put_super<Block>(job, super, first, count);
                                     });
}

size_t encode_blocks(DType type, const EncodeJob& job) {
  switch (type) {
    case DType::kQ2_K: return encode_super<BlockQ2_K, 16>(job, {{0, 3}, {0, 15}, 15});
    case DType::kQ3_K: return encode_super<BlockQ3_K, 16>(job, {{-4, 3}, {-32, 31}});
    case DType::kQ4_K: return encode_super<BlockQ4_K, 32>(job, {{0, 15}, {0, 63}, 63});
    case DType::kQ5_K: return encode_super<BlockQ5_K, 32>(job, {{0, 31}, {0, 63}, 63});
    default:
      VEERY_CHECK(type == DType::kQ6_K);
      return encode_super<BlockQ6_K, 16>(job, {{-32, 31}, {-128, 127}});
  }
}

}  // namespace

LaneEncoder super_encoder() { return encode_blocks; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const LaneEncoders& super_encoders() {
  static const LaneEncoders kEncoders = VEERY_LANE_COPIES(super_encoder);
  return kEncoders;
}

}  // namespace veery
#endif

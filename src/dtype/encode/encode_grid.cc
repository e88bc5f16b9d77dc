// encode_grid.cc: encoders of blocks of 256 whose codes index points of a grid.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/encode/encode_grid.cc"
#include "dtype/lane_targets.h"
//
#include "dtype/encode/encode_lanes-inl.h"
#include "dtype/encode/fit_grid-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

template <typename Block, int kElements, int kDigits>
size_t encode_grid(const EncodeJob& job, DType type) {
  const GridFormat& format = grid_format(type);
  for (size_t at = 0; at < job.in.size(); at += 256) {
    const std::span<const float> values = job.in.subspan(at, 256);
    if (!std::ranges::all_of(values, [](float x) { return std::fabs(x) <= kLargestEncoded; }))
      return at;
    float buffer[256];
    GridBlock grid;
    GridFit<kElements, kDigits>(format, values.data(), weights_at(job, at, 256, buffer)).run(grid);
    if (!fits_half(grid.d)) return at;
    Block block;
    pack(grid, block);
    put(job, at / 256, block);
  }
  return job.in.size();
}

size_t encode_blocks(DType type, const EncodeJob& job) {
  switch (type) {
    case DType::kIQ2_XXS: return encode_grid<BlockIQ2_XXS, 8, 3>(job, type);
    case DType::kIQ2_XS: return encode_grid<BlockIQ2_XS, 8, 3>(job, type);
    case DType::kIQ2_S: return encode_grid<BlockIQ2_S, 8, 3>(job, type);
    case DType::kIQ3_XXS: return encode_grid<BlockIQ3_XXS, 4, 8>(job, type);
    case DType::kIQ3_S: return encode_grid<BlockIQ3_S, 4, 8>(job, type);
    case DType::kIQ1_S: return encode_grid<BlockIQ1_S, 8, 3>(job, type);
    default: VEERY_CHECK(type == DType::kIQ1_M); return encode_grid<BlockIQ1_M, 8, 3>(job, type);
  }
}

}  // namespace

LaneEncoder grid_encoder() { return encode_blocks; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const LaneEncoders& grid_encoders() {
  static const LaneEncoders kEncoders = VEERY_LANE_COPIES(grid_encoder);
  return kEncoders;
}

}  // namespace veery
#endif

// position_scale.h: multiplies rows by a factor that depends on their position.
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

struct PositionScaleParams {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE int32_t* positions;
  const VEERY_DEVICE Float64* factors;  ///< one for each multiple of the period
  Float64 shift, period;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
namespace veery::gpu {

VEERY_GPU void position_scale(const VEERY_THREAD PositionScaleParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int period = whole_part((to_f64(a.positions[r]) + a.shift) / a.period);
  const float factor = to_f32(load_f64(a.factors + period));
  for (int c = thread(); c < a.out.cols; c += threads()) a.out.row(r)[c] = a.x.row(r)[c] * factor;
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_POSITION_SCALE_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kShared, position_scale, PositionScaleParams, 256)

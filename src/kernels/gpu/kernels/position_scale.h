// position_scale.h: multiplies rows by a factor that depends on their position.
#pragma once
#include "kernels/gpu/params/attend_params.h"

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

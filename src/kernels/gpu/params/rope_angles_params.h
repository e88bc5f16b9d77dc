// angles_arguments.h: what angles() is given.
#pragma once
#include "kernels/gpu/params/params.h"
#include "kernels/gpu/dialect/f64.h"

namespace veery::gpu {

struct AnglesArguments {
  Run run;
  const VEERY_DEVICE Float64 *usual, *extended;  ///< radians a position; extended may be nullptr
  Float64 magnitude;
  const VEERY_DEVICE int32_t* positions;
  Matrix out;
  /// Instead of the magnitude: one for each time that position + shift is beyond a context.
  const VEERY_DEVICE Float64* magnitudes;
  Float64 shift, context;
};

}  // namespace veery::gpu

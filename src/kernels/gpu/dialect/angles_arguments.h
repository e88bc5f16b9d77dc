// angles_arguments.h: what angles() is given, on GPUs that know double.
#pragma once
#include "kernels/gpu/dialect/arguments.h"

namespace veery::gpu {

struct AnglesArguments {
  Run run;
  const double *usual, *extended;  ///< radians a position; extended may be nullptr
  double magnitude;
  const int32_t* positions;
  Matrix out;
  /// Instead of the magnitude: one for each time that position + shift is beyond a context.
  const double* magnitudes;
  double shift, context;
};

}  // namespace veery::gpu

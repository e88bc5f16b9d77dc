// relaxed_params.h: parameters of the kernels of --relaxed.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/packing/weight_format.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

VEERY_CONSTANT int kDequantizeColumns = 128;  ///< of a panel per thread block

/// Expands a weight to row-major bf16.
struct DequantizeParams {
  Weight weight;
  VEERY_DEVICE uint16_t* out;  ///< [rows][cols]
};

/// Rounds rows of x to bf16, after the norm if there is one.
struct RowsToBf16Params {
  Run run;
  Matrix x;
  Norm norm;
  VEERY_DEVICE uint16_t* out;
  int64_t stride;  ///< elements of a row of `out`
};

/// The epilogue of a gated product: activate(gate + bias[0]) * (up + bias[1]) * scale + residual. A
/// row of `products` has the bf16 gates, then the ups.
struct GatedEpilogueParams {
  Run run;
  const VEERY_DEVICE uint16_t* products;
  const VEERY_DEVICE float* bias[2];  ///< or nullptr
  ActivationParams gate;
  float scale;
  Matrix residual, out;
  int32_t rounded;  ///< 1: out is bf16 with rows of out.stride / 2 floats
};

/// The epilogue activate(y + bias) * scale + residual, in place. The outputs of weight i begin at
/// column[i].
struct EpilogueParams {
  VEERY_STATIC int kWeights = 3;
  Run run;
  const VEERY_DEVICE float* bias[kWeights];  ///< or nullptr
  int32_t column[kWeights];
  int32_t weights;
  ActivationParams gate;
  float scale;
  Matrix residual, y;
};

}  // namespace veery::gpu

// linear_params.h: parameters that the products in kernels/linear share.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

/// One product: up to three weights of one format side by side, or one weight and its gate. The
/// epilogue adds bias, activation, scale and residual in the order of docs/numerics.md.
struct GemmParams {
  VEERY_STATIC int kWeights = 3;
  Run run;
  Activations act;  ///< data is nullptr if gemv() quantises x itself
  const float* x;
  Norm norm;
  int64_t rows;  ///< of x; a code as Matrix::rows
  Weight weight[kWeights];
  const VEERY_DEVICE float* bias[kWeights];
  int32_t column[kWeights];  ///< first output column of each weight
  int32_t weights, gated;
  ActivationParams gate;
  float scale;
  Matrix residual, out;
  /// [rows] order_key() of the largest output, instead of storing outputs; or nullptr.
  VEERY_DEVICE uint64_t* argmax_keys;
  int32_t max_smem;  ///< bytes of shared memory that gemv() and gemm_mma() of bf16 may use
};

}  // namespace veery::gpu

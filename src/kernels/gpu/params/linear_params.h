// linear_params.h: parameters of activation quantisation and of the products in kernels/linear.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

/// quantize_x(): one token row per thread block, or part of one.
struct QuantizeXParams {
  Run run;
  Matrix x;
  Norm norm;
  Activations act;
  VEERY_DEVICE uint64_t* argmax_keys;  ///< GemmParams::argmax_keys, cleared here; or nullptr
  int32_t staged;                      ///< 1: shared memory holds the row that is normalised
  int32_t staged_weights;  ///< 1: and the norm's weights, whose rows are multiples of 16 bytes
  int32_t blocks_per_row;
};

/// quantize_x_groups(): the same for many rows, in groups of 8.
struct QuantizeXGroupsParams {
  Run run;
  Matrix x;
  Norm norm;
  Activations act;
  VEERY_DEVICE uint64_t* argmax_keys;  ///< GemmParams::argmax_keys, cleared here; or nullptr
  int32_t slot_bits;         ///< log2 of the slots of a group (of 8) that a thread block fills
  int32_t blocks_per_row;    ///< thread blocks that share these; 1 if a block needs whole rows
  int32_t staged;            ///< 1: shared memory holds the rows and the norm's weights
  int32_t delay_dependents;  ///< 1: the next launch begins only after this one has ended
};

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

/// Turns the keys of GemmParams::argmax_keys into indices and clears them.
struct ArgmaxFinishParams {
  Run run;
  VEERY_DEVICE uint64_t* argmax_keys;
  Matrix out;
};

}  // namespace veery::gpu

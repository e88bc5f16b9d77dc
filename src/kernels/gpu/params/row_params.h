// row_params.h: parameters of the kernels in rows.h and row_ops.h.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/packing/weight_format.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

struct EmbedParams {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Weight weight;
  Matrix out;
  float factor;
};
/// An embedding whose weight is a row-major f32 matrix.
struct EmbedRowsParams {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Matrix weight, out;
  float factor;
};

struct RmsNormParams {
  Run run;
  Matrix x, residual, out;
  Norm norm;
  int32_t groups;
  int32_t staged;  ///< 1: shared memory holds the row
};

struct LayerNormParams {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE float *weight, *bias;  ///< bias may be nullptr
  float eps;
  int32_t groups;
  int32_t whole;   ///< 1: one weight per column of the row; 0: per column of a group
  int32_t staged;  ///< 1: shared memory holds the row
};

struct L2NormParams {
  Run run;
  Matrix x, out;
  float eps;
};

enum class Elementwise : int32_t { kAdd, kMul, kScale, kActivate, kSoftcap };
struct ElementwiseParams {
  Run run;
  Elementwise op;
  Matrix a, b, out;
  int32_t part;  ///< kMul: columns of `a` that share one element of `b`
  float factor;
  ActivationParams activate;
};

struct SelectRowsParams {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE int32_t* rows;
};

struct ArgmaxParams {
  Run run;
  Matrix x, out;  ///< out: i32
};

enum class CastType : int32_t { kF32, kF16, kBF16, kI32, kU8 };
struct CastParams {
  Run run;
  const VEERY_DEVICE uint8_t* x;
  VEERY_DEVICE uint8_t* out;
  int64_t x_stride, out_stride;  ///< bytes
  int64_t rows;                  ///< a code of Operand::rows
  int32_t cols;
  CastType from, to;
};

struct ConcatParams {
  Run run;
  Matrix a, b, out;
};

struct ShiftParams {
  Run run;
  Matrix x, out;
  int32_t by;
};

struct PoolParams {
  Run run;
  Matrix x, out;
  int32_t kind;  ///< veery::Pooling
};

struct SumToParams {
  Run run;
  Matrix x, out;
};

/// A weight of one f32 row, so that the product has one output.
struct LinearOneParams {
  Run run;
  Matrix x;
  const VEERY_DEVICE float *weight, *bias;
  float scale;
  Matrix residual, out;
};

}  // namespace veery::gpu

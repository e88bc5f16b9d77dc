// row_arguments.h: what the kernels of row_ops.h are given.
#pragma once
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

struct L2NormArguments {
  Run run;
  Matrix x, out;
  float eps;
};

struct ConcatArguments {
  Run run;
  Matrix a, b, out;
};

struct ShiftArguments {
  Run run;
  Matrix x, out;
  int32_t by;
};

struct PoolArguments {
  Run run;
  Matrix x, out;
  int32_t kind;  ///< veery::Pooling
};

struct SumToArguments {
  Run run;
  Matrix x, out;
};

/// A weight that is one row of f32, and its single output.
struct LinearOneArguments {
  Run run;
  Matrix x;
  const VEERY_DEVICE float *weight, *bias;
  float scale;
  Matrix residual, out;
};
struct EmbedRowsArguments {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Matrix weight, out;
  float factor;
};

/// Heads of rows as rows of their own, [rows x heads][in], and products back among what is left of
/// the heads.
struct SplitHeadsArguments {
  Run run;
  Matrix x;
  VEERY_DEVICE float* to;
  int32_t heads, in;
};
struct HeadPairsArguments {
  Run run;
  Pairs pairs;
  int64_t rows;  ///< of x, as Matrix::rows
  int32_t heads;
};
struct JoinHeadsArguments {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE float* products;  ///< [rows x heads][made]
  int32_t heads, in, made;
};

}  // namespace veery::gpu

// row_arguments.h: what the kernels of row_ops.h are given.
#pragma once
#include "kernels/gpu/dialect/chain_arguments.h"

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

struct TopKArguments {
  Run run;
  Matrix x, values, indices, mass;  ///< indices: i32
  int32_t count;
  const ChainState* states;  ///< of a chain whose rows draw, else nullptr
  const ChainLists* lists;   ///< what changes logits before
};
/// What lies where in the block's memory.
struct TopKPlaces {
  static constexpr int kThreads = 1024;
  static constexpr int kMost = 2 * kThreads;  ///< of a row that are sorted
  static constexpr int kPiece = 1024;         ///< of softmax_mass()
  static constexpr int kKeys = 0, kCount = kMost * 8, kLargest = kCount + 16;
  static constexpr int kSums = kLargest + 8 * kThreads / 32;  ///< a double each piece
  static VEERY_GPU_HOST constexpr int pieces(int cols) { return (cols + kPiece - 1) / kPiece; }
  static VEERY_GPU_HOST constexpr int bytes(int cols) { return kSums + 8 * pieces(cols); }
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
  const float *weight, *bias;
  float scale;
  Matrix residual, out;
};
struct EmbedRowsArguments {
  Run run;
  const int32_t* ids;
  Matrix weight, out;
  float factor;
};

/// Heads of rows as rows of their own, [rows x heads][in], and products back among what is left of
/// the heads.
struct SplitHeadsArguments {
  Run run;
  Matrix x;
  float* to;
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
  const float* products;  ///< [rows x heads][made]
  int32_t heads, in, made;
};

}  // namespace veery::gpu

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

/// The blocks of a row share its pieces. Memory that they have in common, of each row:
struct TopKArguments {
  Run run;
  Matrix x, values, indices, mass;  ///< indices: i32
  int32_t count;
  uint64_t* groups;          ///< [TopKPlaces::kThreads] the largest of each group of numbers
  uint64_t* found;           ///< [TopKPlaces::kMost] what may be among the largest
  double* sums;              ///< [pieces]
  uint32_t* arrived;         ///< [2] of `found` and of blocks; 0 when a run begins
  const ChainState* states;  ///< of a chain whose rows draw, else nullptr
  const ChainLists* lists;   ///< what changes logits before
  /// Rows of TokenMaskRows, mask_words each: what may not come becomes NaN; nullptr: there are none
  const uint32_t* masks;
  int32_t mask_words;
};
struct TopKPlaces {
  static constexpr int kThreads = 1024;
  static constexpr int kMost = 2 * kThreads;  ///< of a row that are sorted
  static constexpr int kPiece = 1024;         ///< of softmax_mass()
  static constexpr int kMostBlocks = 32;      ///< of a row; a power of two
  // What lies where in a block's memory.
  static constexpr int kKeys = 0, kLast = kMost * 8, kLargest = kLast + 16;
  static constexpr int kBytes = kLargest + 8 * kThreads / 32;
  static VEERY_GPU_HOST constexpr int pieces(int cols) { return (cols + kPiece - 1) / kPiece; }
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

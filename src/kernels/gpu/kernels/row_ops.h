// row_ops.h: row ops with the bits of kernels/reference, which adds in f64.
#pragma once
#include "kernels/gpu/params/expert_params.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

/// An embedding whose weight is a row-major f32 matrix.
struct EmbedRowsParams {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Matrix weight, out;
  float factor;
};

struct L2NormParams {
  Run run;
  Matrix x, out;
  float eps;
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

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/dialect/f64.h"

namespace veery::gpu {

/// Divides x by its length. One warp per row. The sum is accumulated sequentially in f64 over
/// pieces staged in shared memory.
VEERY_GPU void l2_norm(const VEERY_THREAD L2NormParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  constexpr int kPiece = 1024;
  auto* piece = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
  const VEERY_DEVICE float* x = a.x.row(r);
  Float64 sum = to_f64(0);
  for (int first = 0; first < a.out.cols; first += kPiece) {
    const int count = a.out.cols - first < kPiece ? a.out.cols - first : kPiece;
    VEERY_UNROLL(8)
    for (int i = lane(); i < count; i += kWarp) piece[i] = x[first + i];
    sync_warp();
    VEERY_UNROLL(8)
    for (int i = 0; i < count; ++i) sum = sum + product_f64(piece[i], piece[i]);
    sync_warp();
  }
  const Float64 own = square_root_f64(sum), eps = to_f64(a.eps);
  const Float64 length = own < eps ? eps : own;
  for (int i = lane(); i < a.out.cols; i += kWarp) a.out.row(r)[i] = to_f32(to_f64(x[i]) / length);
}

VEERY_GPU void concat(const VEERY_THREAD ConcatParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  for (int c = thread(); c < a.out.cols; c += threads())
    a.out.row(r)[c] = c < a.a.cols ? a.a.row(r)[c] : a.b.row(r)[c - a.a.cols];
}

VEERY_GPU void shift(const VEERY_THREAD ShiftParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const RunSpan span = span_at(a.run.spans + a.run.span_of[r]);
  const int64_t from = r - a.by;
  const bool in_span = from >= span.first_row && from < span.first_row + span.rows;
  for (int c = thread(); c < a.out.cols; c += threads())
    a.out.row(r)[c] = in_span ? a.x.row(from)[c] : 0.0F;
}

/// One thread per column of a span; it accumulates the rows sequentially in f64.
VEERY_GPU void pool(const VEERY_THREAD PoolParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  enum { kFirst, kLast, kMean, kMax, kSumOverRoot, kWeightedMean };
  const int64_t s = block_y();
  const int c = block_x() * threads() + thread();
  if (s >= a.run.count(a.out.rows) || c >= a.out.cols) return;
  const RunSpan span = span_at(a.run.spans + s);
  const auto x = [&](int64_t i) { return a.x.row(span.first_row + i)[c]; };
  if (a.kind == kMax) {
    float maximum = x(0);
    for (int i = 1; i < span.rows; ++i) maximum = maximum < x(i) ? x(i) : maximum;
    a.out.row(s)[c] = maximum;
    return;
  }
  if (a.kind == kFirst || a.kind == kLast) {
    a.out.row(s)[c] = x(a.kind == kFirst ? 0 : span.rows - 1) + 0.0F;  // a sum is never -0
    return;
  }
  const Float64 one = to_f64(1), n = to_f64(span.rows);
  const Float64 each = a.kind == kMean ? one / n : one / square_root_f64(n);
  Float64 sum = to_f64(0);
  VEERY_UNROLL(8)
  for (int i = 0; i < span.rows; ++i) {
    const Float64 weight = a.kind == kWeightedMean ? to_f64(2 * (i + 1)) / (n * (n + one)) : each;
    sum = sum + weight * to_f64(x(i));
  }
  a.out.row(s)[c] = to_f32(sum);
}

/// Computes the sums of equal parts of a row.
VEERY_GPU void sum_to(const VEERY_THREAD SumToParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int part = a.x.cols / a.out.cols;
  for (int c = thread(); c < a.out.cols; c += threads()) {
    const VEERY_DEVICE float* x = a.x.row(r) + c * part;
    Float64 sum = to_f64(0);
    VEERY_UNROLL(8)
    for (int k = 0; k < part; ++k) sum = sum + to_f64(x[k]);
    a.out.row(r)[c] = to_f32(sum);
  }
}

/// Computes the output of a weight with one row. One thread per row of x; each product and each sum
/// is rounded (kernels/reference/linear.cc).
VEERY_GPU void linear_one(const VEERY_THREAD LinearOneParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = int64_t{block_x()} * threads() + thread();
  if (r >= a.run.count(a.out.rows)) return;
  float y = 0;
  VEERY_UNROLL(8)
  for (int i = 0; i < a.x.cols; ++i) y = y + a.x.row(r)[i] * a.weight[i];
  y = (y + (a.bias != nullptr ? a.bias[0] : 0.0F)) * a.scale;
  a.out.row(r)[0] = a.residual ? y + a.residual.row(r)[0] : y;
}
VEERY_GPU void embed_rows(const VEERY_THREAD EmbedRowsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  for (int k = thread(); k < a.out.cols; k += threads())
    a.out.row(r)[k] = a.weight.row(a.ids[r])[k] * a.factor;
}

// Products with a matrix per head (launch/heads.cc)

VEERY_GPU void split_heads(const VEERY_THREAD SplitHeadsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.x.rows)) return;
  const int each = a.x.cols / a.heads, all = a.heads * a.in;
  for (int i = thread(); i < all; i += threads())
    a.to[r * all + i] = a.x.row(r)[i / a.in * each + i % a.in];
}
/// Pairs every row with each head. The pairs of a head are in the order of rows.
VEERY_GPU void head_pairs(const VEERY_THREAD HeadPairsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int rows = static_cast<int>(a.run.count(a.rows)), max_pairs = a.pairs.max_pairs;
  const int groups = (rows + max_pairs - 1) / max_pairs, head = block_x();
  for (int i = thread(); i < rows; i += threads()) {
    a.pairs.order[head * rows + i] = i * a.heads + head;
    a.pairs.expert[i * a.heads + head] = head;
    a.pairs.gate[i * a.heads + head] = 1;
  }
  for (int i = thread(); i < groups; i += threads()) {
    const int left = rows - i * max_pairs;
    VEERY_DEVICE PairGroup& to = a.pairs.group[head * groups + i];
    to.expert = head, to.first = head * rows + i * max_pairs;
    to.count = left < max_pairs ? left : max_pairs;
  }
  if (head == 0 && thread() == 0) *a.pairs.groups = groups * a.heads;
}
VEERY_GPU void join_heads(const VEERY_THREAD JoinHeadsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int from = a.x.cols / a.heads, to = a.made + from - a.in;
  for (int i = thread(); i < a.out.cols; i += threads()) {
    const int head = i / to, in = i % to;
    a.out.row(r)[i] = in < a.made ? a.products[(r * a.heads + head) * a.made + in]
                                  : a.x.row(r)[head * from + a.in + in - a.made];
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ROW_OPS_KERNELS(X)                               \
  VEERY_GPU_SINGLE(X, kShared, l2_norm, L2NormParams, 32)          \
  VEERY_GPU_SINGLE(X, kShared, concat, ConcatParams, 256)          \
  VEERY_GPU_SINGLE(X, kShared, shift, ShiftParams, 256)            \
  VEERY_GPU_SINGLE(X, kShared, pool, PoolParams, 128)              \
  VEERY_GPU_SINGLE(X, kShared, sum_to, SumToParams, 64)            \
  VEERY_GPU_SINGLE(X, kShared, linear_one, LinearOneParams, 64)    \
  VEERY_GPU_SINGLE(X, kShared, embed_rows, EmbedRowsParams, 256)   \
  VEERY_GPU_SINGLE(X, kShared, split_heads, SplitHeadsParams, 256) \
  VEERY_GPU_SINGLE(X, kShared, head_pairs, HeadPairsParams, 128)   \
  VEERY_GPU_SINGLE(X, kShared, join_heads, JoinHeadsParams, 256)

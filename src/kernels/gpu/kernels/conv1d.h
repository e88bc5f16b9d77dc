// conv1d.h: convolutions over the positions of a sequence, with the bits of
// kernels/cpu/recurrence/conv1d.cc. Each thread processes one channel.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/params/recurrence_params.h"

namespace veery::gpu {

struct Conv1dParams {
  Run run;
  Matrix x, weight, bias, out;
  RecurrentState state;
  ActivationParams activation;
  VEERY_STATIC int kRows = 32;  ///< token rows per thread block
  VEERY_STATIC int kMaxWidth = 8;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
namespace veery::gpu {

/// Channel `c` of one span.
class Convolution {
 public:
  VEERY_GPU Convolution(const VEERY_THREAD Conv1dParams& params, const VEERY_THREAD RunSpan& span,
                        int c)
      : a_(params), of_(span), c_(c), before_(static_cast<int>(a_.weight.rows) - 1) {
    bias_ = a_.bias ? a_.bias.row(0)[c] : 0.0F;
    VEERY_UNROLL(8)
    for (int j = 0; j < Conv1dParams::kMaxWidth; ++j)
      weight_[j] = j <= before_ ? a_.weight.row(j)[c] : 0.0F;
  }

  /// Computes the first rows of the span, which also read the stored inputs of earlier positions,
  /// then replaces these. One thread does both, so that no stored input is overwritten before it is
  /// read.
  VEERY_GPU void begin() {
    float past[Conv1dParams::kMaxWidth];
    const bool continues = a_.state && of_.position > 0;
    const VEERY_DEVICE float* kept =
        continues ? a_.state.at(a_.run, of_.sequence, of_.position) : nullptr;
    VEERY_UNROLL(8)
    for (int j = 0; j < Conv1dParams::kMaxWidth; ++j)
      past[j] = continues && j < before_ ? kept[int64_t{j} * a_.out.cols + c_] : 0.0F;
    const int first = before_ > 1 ? before_ : 1;
    for (int i = 0; i < first && i < of_.rows; ++i)
      store_output(
          i, [&](int j) { return i + j < before_ ? past_of(past, i + j) : x(i + j - before_); });
    if (!a_.state) return;
    const int count = a_.state.kept(a_.run, of_.sequence);
    for (int i = of_.rows > count ? of_.rows - count : 0; i < of_.rows; ++i) {
      VEERY_DEVICE float* to = a_.state.at(a_.run, of_.sequence, of_.position + i + 1);
      for (int j = 0; j < before_; ++j) {
        const int from = i + 1 + j;  // index into the kept inputs, then the rows of the run
        to[int64_t{j} * a_.out.cols + c_] =
            from < before_ ? past_of(past, from) : x(from - before_);
      }
    }
  }
  /// Returns whether begin() computes row `i` of the span.
  VEERY_GPU bool is_first(int i) const { return i == 0 || i < before_; }
  VEERY_GPU void row(int i) {
    store_output(i, [&](int j) { return x(i + j - before_); });
  }

 private:
  VEERY_GPU float x(int i) const { return a_.x.row(int64_t{of_.first_row} + i)[c_]; }
  // Selects by comparisons: an array in registers cannot be indexed at run time.
  static VEERY_GPU float past_of(const VEERY_THREAD float (&past)[Conv1dParams::kMaxWidth], int i) {
    float x = past[0];
    VEERY_UNROLL(8)
    for (int j = 1; j < Conv1dParams::kMaxWidth; ++j) x = i == j ? past[j] : x;
    return x;
  }
  template <typename Input>
  VEERY_GPU void store_output(int i, const VEERY_THREAD Input& input) {
    float y = bias_;
    VEERY_UNROLL(8)
    for (int j = 0; j < Conv1dParams::kMaxWidth; ++j)
      if (j <= before_) y = fma(weight_[j], input(j), y);
    a_.out.row(int64_t{of_.first_row} + i)[c_] = activated(y, a_.activation);
  }

  const VEERY_THREAD Conv1dParams& a_;
  const RunSpan of_;
  int c_, before_;
  float bias_;
  float weight_[Conv1dParams::kMaxWidth];
};

/// A thread block has some rows and one channel per thread.
VEERY_GPU void conv1d(const VEERY_THREAD Conv1dParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int c = block_x() * threads() + thread();
  const int rows = static_cast<int>(a.run.count(a.out.rows));
  const int first = block_y() * Conv1dParams::kRows;
  const int end = first + Conv1dParams::kRows < rows ? first + Conv1dParams::kRows : rows;
  if (c >= a.out.cols) return;
  for (int r = first; r < end;) {
    const RunSpan span = span_at(a.run.spans + a.run.span_of[r]);
    Convolution of(a, span, c);
    const int last = span.first_row + span.rows < end ? span.first_row + span.rows : end;
    if (r == span.first_row) of.begin();
    VEERY_UNROLL(4)
    for (; r < last; ++r)
      if (!of.is_first(r - span.first_row)) of.row(r - span.first_row);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_CONV1D_KERNELS(X) VEERY_GPU_SINGLE(X, kShared, conv1d, Conv1dParams, 128)

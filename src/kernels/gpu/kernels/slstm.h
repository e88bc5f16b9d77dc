// slstm.h: sLSTM and products with a matrix per head, in the order of kernels/reference/slstm.cc,
// which computes in f64.
#pragma once
#include "kernels/gpu/params/recurrence_params.h"

namespace veery::gpu {

struct SlstmParams {
  Run run;
  Matrix x, recurrent, bias, out;
  RecurrentState state;
  int32_t heads;
};

struct LinearHeadsParams {
  Run run;
  Matrix x, weight, out;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/dialect/f64.h"

namespace veery::gpu {

VEERY_GPU Float64 sigmoid_f64(Float64 x) { return to_f64(1) / (to_f64(1) + exp_f64(-x)); }
VEERY_GPU Float64 log_sigmoid_f64(Float64 x) {
  const Float64 zero = to_f64(0);
  return (x > zero ? zero : x) - log1p_f64(exp_f64(x < zero ? x : -x));
}

/// A head of one span. Shared memory: the states y, c, n and m of its channels, then the gates.
class SlstmHead {
 public:
  VEERY_GPU SlstmHead(const VEERY_THREAD SlstmParams& params, int64_t span, int head VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT a_(params),
        of_(span_at(a_.run.spans + span)),
        size_(a_.out.cols / a_.heads) {
    first_ = head * size_;
    states_ = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
    gates_ = states_ + 4 * size_;
  }

  VEERY_GPU void run() {
    bool begins = !a_.state || of_.position == 0;
    const VEERY_DEVICE float* from =
        begins ? nullptr : a_.state.at(a_.run, of_.sequence, of_.position);
    for (int i = thread(); i < 4 * size_; i += threads())
      states_[i] = begins ? 0.0F : from[offset(i)];
    sync_block();
    const int kept = a_.state ? a_.state.kept(a_.run, of_.sequence) : 0;
    for (int r = 0; r < of_.rows; ++r) {
      compute_gates(of_.first_row + r);
      sync_block();
      for (int i = thread(); i < size_; i += threads()) step(of_.first_row + r, i, begins);
      sync_block();
      begins = false;
      if (of_.rows - r > kept) continue;
      VEERY_DEVICE float* to = a_.state.at(a_.run, of_.sequence, of_.position + r + 1);
      for (int i = thread(); i < 4 * size_; i += threads()) to[offset(i)] = states_[i];
    }
  }

 private:
  enum { kY, kC, kN, kM };
  VEERY_GPU VEERY_SHARED float& state(int which, int i) const { return states_[which * size_ + i]; }
  // Returns the offset of channel i in the stored state.
  VEERY_GPU int64_t offset(int i) const {
    return int64_t{i / size_} * a_.out.cols + first_ + i % size_;
  }

  VEERY_GPU void compute_gates(int64_t row) {
    for (int i = thread(); i < 4 * size_; i += threads()) {
      const int64_t column = offset(i);
      float sum = a_.x.row(row)[column];
      VEERY_UNROLL(8)
      for (int j = 0; j < size_; ++j) sum = sum + a_.recurrent.row(j)[column] * state(kY, j);
      gates_[i] = sum + a_.bias.row(0)[column];
    }
  }
  VEERY_GPU void step(int64_t row, int i, bool begins) {
    const auto gate = [&](int which) { return to_f64(gates_[which * size_ + i]); };
    const auto of = [&](int which) { return to_f64(state(which, i)); };
    const Float64 zero = to_f64(0), one = to_f64(1);
    const Float64 input = gate(0), kept = of(kM) + log_sigmoid_f64(gate(1));
    const float maximum = to_f32(begins ? input : input < kept ? kept : input);
    const Float64 m = to_f64(maximum), wrote = exp_f64(input - m), kept_of = exp_f64(kept - m);
    const Float64 write = wrote < one ? wrote : one;
    const Float64 keep = begins ? zero : kept_of < one ? kept_of : one;
    state(kC, i) = to_f32(keep * of(kC) + write * tanh_f64(gate(2)));
    state(kN, i) = to_f32(keep * of(kN) + write);
    state(kM, i) = maximum;
    const Float64 ratio = of(kC) / of(kN);
    const float y = to_f32(sigmoid_f64(gate(3)) * ratio);
    state(kY, i) = y;
    a_.out.row(row)[first_ + i] = y;
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD SlstmParams& a_;
  const RunSpan of_;
  int size_, first_;
  VEERY_SHARED float *states_, *gates_;
};
VEERY_GPU void slstm(const VEERY_THREAD SlstmParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  if (block_y() >= a.run.count(kSpanRows)) return;
  SlstmHead(a, block_y(), block_x() VEERY_CONTEXT_ARG).run();
}

/// Multiplies each part of x by a matrix: part p of y is W times part p of x. All parts have the
/// same number of columns.
VEERY_GPU void linear_heads(const VEERY_THREAD LinearHeadsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_y();
  if (r >= a.run.count(a.out.rows)) return;
  const int size = a.weight.cols;
  for (int c = block_x() * threads() + thread(); c < a.out.cols; c += blocks_x() * threads()) {
    const VEERY_DEVICE float* x = a.x.row(r) + c / size * size;
    const VEERY_DEVICE float* w = a.weight.row(c);
    Float64 sum = to_f64(0);
    for (int j = 0; j < size; ++j) sum = sum + product_f64(w[j], x[j]);
    a.out.row(r)[c] = to_f32(sum);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_SLSTM_KERNELS(X)                      \
  VEERY_GPU_SINGLE(X, kShared, slstm, SlstmParams, 512) \
  VEERY_GPU_SINGLE(X, kShared, linear_heads, LinearHeadsParams, 256)

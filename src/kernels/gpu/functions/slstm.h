// slstm.h: sLSTM and products of heads, in the order of kernels/reference/slstm.cc, whose functions
// are those of f64.
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/dialect/recurrence_arguments.h"

namespace veery::gpu {

VEERY_GPU double sigmoid_f64(double x) { return 1 / (1 + exp_f64(-x)); }
VEERY_GPU double log_sigmoid_f64(double x) {
  return (x > 0 ? 0.0 : x) - log1p_f64(exp_f64(x < 0 ? x : -x));
}

/// A head of one span. Shared memory: the states y, c, n, m of its channels, then the gates.
class SlstmHead {
 public:
  VEERY_GPU SlstmHead(const SlstmArguments& arguments, int64_t span, int head)
      : a_(arguments), of_(a_.run.spans[span]), size_(a_.out.cols / a_.heads) {
    first_ = head * size_;
    states_ = reinterpret_cast<float*>(shared_memory());
    gates_ = states_ + 4 * size_;
  }

  VEERY_GPU void run() {
    bool begins = !a_.state || of_.position == 0;
    const float* from = begins ? nullptr : a_.state.at(a_.run, of_.sequence, of_.position);
    for (int i = thread(); i < 4 * size_; i += threads())
      states_[i] = begins ? 0.0F : from[place(i)];
    sync_block();
    const int kept = a_.state ? a_.state.kept(a_.run, of_.sequence) : 0;
    for (int r = 0; r < of_.rows; ++r) {
      find_gates(of_.first_row + r);
      sync_block();
      for (int i = thread(); i < size_; i += threads()) step(of_.first_row + r, i, begins);
      sync_block();
      begins = false;
      if (of_.rows - r > kept) continue;
      float* to = a_.state.at(a_.run, of_.sequence, of_.position + r + 1);
      for (int i = thread(); i < 4 * size_; i += threads()) to[place(i)] = states_[i];
    }
  }

 private:
  enum { kY, kC, kN, kM };
  VEERY_GPU float& state(int which, int i) const { return states_[which * size_ + i]; }
  // Of a state in its block.
  VEERY_GPU int64_t place(int i) const {
    return int64_t{i / size_} * a_.out.cols + first_ + i % size_;
  }

  VEERY_GPU void find_gates(int64_t row) {
    for (int i = thread(); i < 4 * size_; i += threads()) {
      const int64_t column = place(i);
      float sum = a_.x.row(row)[column];
      VEERY_UNROLL(8)
      for (int j = 0; j < size_; ++j) sum = sum + a_.recurrent.row(j)[column] * state(kY, j);
      gates_[i] = sum + a_.bias.row(0)[column];
    }
  }
  VEERY_GPU void step(int64_t row, int i, bool begins) {
    const auto gate = [&](int which) { return double{gates_[which * size_ + i]}; };
    const double input = gate(0), kept = state(kM, i) + log_sigmoid_f64(gate(1));
    const double m = static_cast<float>(begins ? input : input < kept ? kept : input);
    const double wrote = exp_f64(input - m), kept_of = exp_f64(kept - m);
    const double write = wrote < 1.0 ? wrote : 1.0;
    const double keep = begins ? 0.0 : kept_of < 1.0 ? kept_of : 1.0;
    state(kC, i) = static_cast<float>(keep * state(kC, i) + write * tanh_f64(gate(2)));
    state(kN, i) = static_cast<float>(keep * state(kN, i) + write);
    state(kM, i) = static_cast<float>(m);
    const double ratio = static_cast<double>(state(kC, i)) / state(kN, i);
    const auto y = static_cast<float>(sigmoid_f64(gate(3)) * ratio);
    state(kY, i) = y;
    a_.out.row(row)[first_ + i] = y;
  }

  const SlstmArguments& a_;
  const RunSpan of_;
  int size_, first_;
  float *states_, *gates_;
};
VEERY_GPU void slstm(const SlstmArguments& a) {
  wait_for_inputs();
  if (block_y() >= a.run.count(kSpanRows)) return;
  SlstmHead(a, block_y(), block_x()).run();
}

/// Of as many columns each, y of a part is W x of this part.
VEERY_GPU void linear_heads(const LinearHeadsArguments& a) {
  wait_for_inputs();
  const int64_t r = block_y();
  if (r >= a.run.count(a.out.rows)) return;
  const int size = a.weight.cols;
  for (int c = block_x() * threads() + thread(); c < a.out.cols; c += blocks_x() * threads()) {
    const float* x = a.x.row(r) + c / size * size;
    const float* w = a.weight.row(c);
    double sum = 0;
    for (int j = 0; j < size; ++j) sum = sum + double{w[j]} * double{x[j]};
    a.out.row(r)[c] = static_cast<float>(sum);
  }
}

}  // namespace veery::gpu

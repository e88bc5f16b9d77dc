// sLSTM, a nonlinear recurrence (kSlstm), and block-diagonal linears (kLinearHeads).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/blocks.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// log(sigmoid(x)) without overflow or cancellation for large |x|.
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }

// One head of one span. Math functions are evaluated in double, so that differences between math
// libraries disappear when results are rounded to f32.
class HeadCells {
 public:
  HeadCells(const Dispatch& d, const RunShape& shape, const Span& span, int64_t head)
      : d_(d),
        shape_(shape),
        span_(span),
        channels_(d.out().cols),
        size_(channels_ / d.as<SlstmAttr>().heads),
        first_(head * size_),
        states_(static_cast<size_t>(kSlstmStates * size_), 0.0F),
        gates_(static_cast<size_t>(kSlstmGates * size_)) {}

  void run() {
    const Operand& kept = d_.in[SlstmIn::kState];
    bool begins = !kept || span_.position == 0;
    if (!begins) copy(block_of(kept, shape_, span_.sequence, span_.position), false);
    for (int64_t i = 0; i < span_.rows; ++i) {
      step(span_.first_row + i, begins);
      begins = false;
      if (kept && span_.rows - i <= blocks_kept(kept, shape_, span_.sequence))
        copy(block_of(kept, shape_, span_.sequence, span_.position + i + 1), true);
    }
  }

 private:
  float& state(int64_t which, int64_t i) { return states_[static_cast<size_t>(which * size_ + i)]; }
  float gate(int64_t which, int64_t i) const {
    return gates_[static_cast<size_t>(which * size_ + i)];
  }

  // Copies the states to memory (write) or from memory.
  void copy(float* memory, bool write) {
    for (int64_t s = 0; s < kSlstmStates; ++s) {
      float* const there = memory + s * channels_ + first_;
      float* const here = &state(s, 0);
      std::copy_n(write ? here : there, size_, write ? there : here);
    }
  }

  void fill_gates(int64_t row) {
    for (int64_t g = 0; g < kSlstmGates; ++g) {
      const int64_t column = g * channels_ + first_;
      float* const out = gates_.data() + g * size_;
      std::copy_n(d_.in[SlstmIn::kX].row<float>(row) + column, size_, out);
      for (int64_t j = 0; j < size_; ++j) {
        const float* r = d_.in[SlstmIn::kRecurrent].row<float>(j) + column;
        const float y = state(kY, j);
        for (int64_t i = 0; i < size_; ++i) out[i] += r[i] * y;
      }
      const float* bias = d_.in[SlstmIn::kBias].row<float>(0) + column;
      for (int64_t i = 0; i < size_; ++i) out[i] += bias[i];
    }
  }

  void step(int64_t row, bool begins) {
    fill_gates(row);
    float* y = d_.out().row<float>(row) + first_;
    for (int64_t i = 0; i < size_; ++i) {
      const double input = gate(0, i), kept = state(kM, i) + log_sigmoid(gate(1, i));
      const double m = static_cast<float>(begins ? input : std::max(input, kept));
      const double write = std::min(1.0, std::exp(input - m));
      const double keep = begins ? 0 : std::min(1.0, std::exp(kept - m));
      state(kC, i) =
          static_cast<float>(keep * state(kC, i) + write * std::tanh(double{gate(2, i)}));
      state(kN, i) = static_cast<float>(keep * state(kN, i) + write);
      state(kM, i) = static_cast<float>(m);
      const double ratio = static_cast<double>(state(kC, i)) / state(kN, i);
      state(kY, i) = y[i] = static_cast<float>(sigmoid(gate(3, i)) * ratio);
    }
  }

  enum { kY, kC, kN, kM };

  const Dispatch& d_;
  const RunShape& shape_;
  const Span span_;
  const int64_t channels_, size_, first_;
  std::vector<float> states_, gates_;
};

void slstm(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.as<SlstmAttr>().heads;
  const Share items = share(shape.span_count * heads, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i)
    HeadCells(d, shape, shape.spans[i / heads], i % heads).run();
}

void linear_heads(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[LinearHeadsIn::kX];
  const Operand& weight = d.in[LinearHeadsIn::kWeight];
  const int64_t size = weight.cols;
  const Share parts = share(d.out().cols / size, 1, worker);
  const int64_t rows = shape.count(d.out().rows);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = parts.begin * size; c < parts.end * size; ++c) {
      const float* const in = x.row<float>(row) + c / size * size;
      double sum = 0;
      for (int64_t j = 0; j < size; ++j)
        sum += static_cast<double>(weight.row<float>(c)[j]) * in[j];
      d.out().row<float>(row)[c] = static_cast<float>(sum);
    }
}

bool takes_slstm(const Dispatch& d, const KernelChoice&) {
  const Operand& state = d.in[SlstmIn::kState];
  return is_matrix(d.in[SlstmIn::kX]) && is_matrix(d.in[SlstmIn::kRecurrent]) &&
         is_matrix(d.in[SlstmIn::kBias]) && (!state || state.layout == Layout::kBlocks) &&
         is_matrix(d.out());
}
bool takes_linear_heads(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LinearHeadsIn::kX]) && is_matrix(d.in[LinearHeadsIn::kWeight]) &&
         is_matrix(d.out());
}

constexpr KernelRow kRows[] = {
    {op::kSlstm, Target::kReference, takes_slstm, {"slstm", {slstm}}},
    {op::kLinearHeads, Target::kReference, takes_linear_heads, {"linear_heads", {linear_heads}}},
};

}  // namespace

KernelRows reference_slstm() { return kRows; }

}  // namespace veery

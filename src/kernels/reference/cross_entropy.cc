#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace veery {
namespace {

// Returns log sum exp(x).
double log_sum_exp(const float* x, int64_t n) {
  const double largest = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - largest);
  return largest + std::log(sum);
}

int32_t target(const Operand& targets, int64_t r) { return *targets.row<int32_t>(r); }

int64_t counted(const Operand& targets, int64_t rows) {
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) count += target(targets, r) >= 0 ? 1 : 0;
  return count;
}

void row_losses(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  auto* loss = reinterpret_cast<double*>(d.work);
  const Share rows = share(shape.count(d.in[CrossEntropyIn::kLogits].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = d.in[CrossEntropyIn::kLogits].row<float>(r);
    const int32_t t = target(d.in[CrossEntropyIn::kTargets], r);
    loss[r] = t < 0 ? 0 : log_sum_exp(x, d.in[CrossEntropyIn::kLogits].cols) - x[t];
  }
}

void mean_loss(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  if (worker.index != 0) return;
  const auto* loss = reinterpret_cast<const double*>(d.work);
  const int64_t rows = shape.count(d.in[CrossEntropyIn::kLogits].rows);
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += loss[r];
  const int64_t count = std::max<int64_t>(1, counted(d.in[CrossEntropyIn::kTargets], rows));
  *d.out().row<float>(0) = static_cast<float>(sum / static_cast<double>(count));
}

void cross_entropy_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t all = shape.count(d.out().rows);
  const double scale =
      double{*d.in[CrossEntropyBackIn::kDy].row<float>(0)} /
      static_cast<double>(std::max<int64_t>(1, counted(d.in[CrossEntropyBackIn::kTargets], all)));
  const Share rows = share(all, 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = d.in[CrossEntropyBackIn::kLogits].row<float>(r);
    float* out = d.out().row<float>(r);
    const int32_t t = target(d.in[CrossEntropyBackIn::kTargets], r);
    const double log_sum = t < 0 ? 0 : log_sum_exp(x, d.out().cols);
    for (int32_t c = 0; c < d.out().cols; ++c)
      out[c] =
          t < 0 ? 0 : static_cast<float>(scale * (std::exp(x[c] - log_sum) - (c == t ? 1 : 0)));
  }
}

size_t loss_bytes(const Dispatch& d, const RunExtent& run) {
  return static_cast<size_t>(d.in[CrossEntropyIn::kLogits].rows < 0
                                 ? run.rows
                                 : d.in[CrossEntropyIn::kLogits].rows) *
         sizeof(double);
}

bool takes_loss(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[CrossEntropyIn::kLogits]) &&
         is_matrix(d.in[CrossEntropyIn::kTargets], DType::kI32) && is_matrix(d.out());
}
bool takes_back(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[CrossEntropyBackIn::kDy]) && is_matrix(d.in[CrossEntropyBackIn::kLogits]) &&
         is_matrix(d.in[CrossEntropyBackIn::kTargets], DType::kI32) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kCrossEntropy, kRef, takes_loss, {"cross_entropy", {row_losses, mean_loss}, loss_bytes}},
    {op::kCrossEntropyBack, kRef, takes_back, {"cross_entropy_back", {cross_entropy_back}}},
};

}  // namespace

KernelRows reference_cross_entropy() { return kRows; }

}  // namespace veery

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

// With the largest element l: mass = sum_i exp(x_i - l), d mass / d x_i = exp(x_i - l), and minus
// the mass for the largest element itself. NaNs contribute nothing.

namespace veery {
namespace {

/// The derivative of the mass of a row.
struct Mass {
  const float* x;
  int64_t n;
  int32_t largest;  ///< index of the largest element; -1: all are NaN, and the mass is constant

  double of(int64_t i) const { return std::isnan(x[i]) ? 0 : std::exp(double{x[i]} - x[largest]); }
  double total() const {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += of(i);
    return sum;
  }
};
Mass mass_of(const Dispatch& d, int64_t r) {
  const Operand& x = d.in[TopKBackIn::kX];
  return {x.row<float>(r), x.cols, *d.in[TopKBackIn::kIndices].row<int32_t>(r)};
}

void top_k_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand &dvalues = d.in[TopKBackIn::kDvalues], &dmass = d.in[TopKBackIn::kDmass];
  const Operand& indices = d.in[TopKBackIn::kIndices];
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out().row<float>(r);
    std::fill_n(out, d.out().cols, 0.0F);
    const Mass mass = mass_of(d, r);
    if (dmass && mass.largest >= 0) {
      const double slope = *dmass.row<float>(r);
      for (int64_t i = 0; i < mass.n; ++i) out[i] = static_cast<float>(slope * mass.of(i));
      out[mass.largest] = static_cast<float>(slope * (1 - mass.total()));
    }
    for (int32_t k = 0; k < indices.cols && dvalues; ++k)
      if (const int32_t i = indices.row<int32_t>(r)[k]; i >= 0) out[i] += dvalues.row<float>(r)[k];
  }
}

void top_k_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& indices = d.in[TopKTangentIn::kIndices];
  const Operand& values = d.outputs[TopKTangentOut::kValues];
  const Share rows = share(shape.count(d.in[TopKTangentIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* tx = d.in[TopKTangentIn::kTx].row<float>(r);
    for (int32_t k = 0; k < indices.cols; ++k) {
      const int32_t i = indices.row<int32_t>(r)[k];
      values.row<float>(r)[k] = i >= 0 ? tx[i] : 0;
    }
    const Mass mass = mass_of(d, r);
    double sum = 0;
    for (int64_t i = 0; i < mass.n && mass.largest >= 0; ++i)
      sum += mass.of(i) * (tx[i] - tx[mass.largest]);
    *d.outputs[TopKTangentOut::kMass].row<float>(r) = static_cast<float>(sum);
  }
}

bool takes(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[TopKBackIn::kX]) && is_matrix(d.in[TopKBackIn::kIndices], DType::kI32) &&
         absent_or_matrix(d.in[TopKBackIn::kDvalues]) && absent_or_matrix(d.in[TopKBackIn::kDmass]);
}

constexpr KernelRow kRows[] = {
    {op::kTopKBack, Target::kReference, takes, {"top_k_back", {top_k_back}}},
    {op::kTopKTangent, Target::kReference, takes, {"top_k_tangent", {top_k_tangent}}},
};

}  // namespace

KernelRows reference_top_k_back() { return kRows; }

}  // namespace veery

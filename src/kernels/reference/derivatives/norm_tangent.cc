#include <cmath>

#include "kernels/reference/reference.h"

// Tangents of norms, in f64: y = u w + bias with u = (x - mean) m, mean 0 for rms_norm, and
// m = (mean((x - mean)^2) + eps)^-1/2. With the deviation s of tx from its mean (or tx itself),
//   tu = m (s - u mean(u s)),  ty = tu w + u tw + tbias.

namespace veery {
namespace {

/// One of the equal parts of a row that are normalised separately.
struct Part {
  const float *x, *weight, *tx, *tweight, *tbias;
  int64_t n;
};

void tangent_of(const Part& p, double eps, bool centred, float* out) {
  const auto n = static_cast<double>(p.n);
  double mean = 0, moved_mean = 0, squares = 0, along = 0;
  for (int64_t i = 0; i < p.n && centred; ++i) {
    mean += p.x[i] / n;
    moved_mean += (p.tx != nullptr ? p.tx[i] : 0) / n;
  }
  const auto moved = [&](int64_t i) { return p.tx != nullptr ? p.tx[i] - moved_mean : 0; };
  for (int64_t i = 0; i < p.n; ++i) {
    squares += (p.x[i] - mean) * (p.x[i] - mean) / n;
    along += (p.x[i] - mean) * moved(i) / n;
  }
  const double m = 1 / std::sqrt(squares + eps);
  for (int64_t i = 0; i < p.n; ++i) {
    const double u = (p.x[i] - mean) * m;
    double sum = m * (moved(i) - u * m * along) * p.weight[i];
    if (p.tweight != nullptr) sum += u * p.tweight[i];
    if (p.tbias != nullptr) sum += p.tbias[i];
    out[i] = static_cast<float>(sum);
  }
}

template <bool kCentred>
void norm_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<NormAttr>();
  const int64_t n = d.out().cols / attr.groups;
  const int64_t weight_step = d.in[NormTangentIn::kWeight].cols == d.out().cols ? n : 0;
  const auto at = [&](int input, int64_t r, int64_t column) {
    const Operand& o = d.in[static_cast<size_t>(input)];
    return o ? o.row<float>(r) + column : nullptr;
  };
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t g = 0; g < attr.groups; ++g) {
      const Part part{at(NormTangentIn::kX, r, g * n),
                      at(NormTangentIn::kWeight, 0, g * weight_step),
                      at(NormTangentIn::kTx, r, g * n),
                      at(NormTangentIn::kTweight, 0, g * weight_step),
                      at(NormTangentIn::kTbias, 0, g * weight_step),
                      n};
      tangent_of(part, attr.eps, kCentred, d.out().row<float>(r) + g * n);
    }
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  for (int i = 0; i <= NormTangentIn::kTbias; ++i)
    if (!absent_or_matrix(d.in[static_cast<size_t>(i)])) return false;
  return is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kRmsNormTangent, kRef, accepts, {"rms_norm_tangent", {norm_tangent<false>}}},
    {op::kLayerNormTangent, kRef, accepts, {"layer_norm_tangent", {norm_tangent<true>}}},
};

}  // namespace

KernelRows reference_norm_tangent() { return kRows; }

}  // namespace veery

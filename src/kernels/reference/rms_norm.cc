#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace veery {

float reference_inverse_rms(const float* x, int64_t n, float eps) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return static_cast<float>(1 / std::sqrt(sum / static_cast<double>(n) + eps));
}

void reference_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  const float inverse = reference_inverse_rms(x, n, eps);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * inverse * weight[i];
}

namespace {

double length_of(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return std::sqrt(sum);
}

void rms_norm(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<NormAttr>();
  const int64_t n = d.out().cols / attr.groups;
  const float* weight = d.in[RmsNormIn::kWeight].row<float>(0);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = d.in[RmsNormIn::kX].row<float>(r);
    float* out = d.out().row<float>(r);
    for (int64_t g = 0; g < attr.groups; ++g) {
      const float inverse = reference_inverse_rms(x + g * n, n, attr.eps);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t c = g * n + i;
        out[c] =
            x[c] * inverse * weight[i] +
            (d.in[RmsNormAddIn::kResidual] ? d.in[RmsNormAddIn::kResidual].row<float>(r)[c] : 0);
      }
    }
  }
}

// y_i = x_i m w_i, m = (mean(x^2) + eps)^-1/2, dm/dx_i = -m^3 x_i / n.
void rms_norm_back_x(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<NormAttr>();
  const int64_t n = d.out().cols / attr.groups;
  const float* weight = d.in[NormBackIn::kWeight].row<float>(0);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t g = 0; g < attr.groups; ++g) {
      const float* dy = d.in[NormBackIn::kDy].row<float>(r) + g * n;
      const float* x = d.in[NormBackIn::kX].row<float>(r) + g * n;
      float* out = d.out().row<float>(r) + g * n;
      const double m = reference_inverse_rms(x, n, attr.eps);
      double dot = 0;
      for (int64_t i = 0; i < n; ++i) dot += double{dy[i]} * weight[i] * x[i];
      const double along = dot * m * m / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<float>(m * (dy[i] * weight[i] - along * x[i]));
    }
  }
}

void l2_norm(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = d.in[UnaryIn::kX].row<float>(r);
    const double length = std::max<double>(length_of(x, d.out().cols), d.as<NormAttr>().eps);
    for (int32_t c = 0; c < d.out().cols; ++c)
      d.out().row<float>(r)[c] = static_cast<float>(x[c] / length);
  }
}

// y = x / |x|: dx = (dy - y (y dy)) / |x|; if |x| <= eps, dx = dy / eps.
void l2_norm_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const double eps = d.as<NormAttr>().eps;
  const int32_t n = d.out().cols;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* dy = d.in[UnaryBackIn::kDy].row<float>(r);
    const float* x = d.in[UnaryBackIn::kX].row<float>(r);
    const double length = length_of(x, n);
    double dot = 0;
    for (int32_t c = 0; c < n && length > eps; ++c) dot += double{x[c]} * dy[c];
    const double along = length > eps ? dot / (length * length) : 0;
    for (int32_t c = 0; c < n; ++c)
      d.out().row<float>(r)[c] = static_cast<float>((dy[c] - along * x[c]) / std::max(length, eps));
  }
}

void rms_norm_back_w(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<NormAttr>();
  const int64_t n = d.out().cols;
  const int64_t parts = shape.count(d.in[NormBackIn::kX].rows) * attr.groups;
  auto* inverse = reinterpret_cast<float*>(worker.scratch);
  const auto part = [&](const Operand& o, int64_t p) {
    return o.row<float>(p / attr.groups) + p % attr.groups * n;
  };
  for (int64_t p = 0; p < parts; ++p)
    inverse[p] = reference_inverse_rms(part(d.in[NormBackIn::kX], p), n, attr.eps);
  const Share columns = share(n, 1, worker);
  for (int64_t i = columns.begin; i < columns.end; ++i) {
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p)
      sum +=
          double{part(d.in[NormBackIn::kDy], p)[i]} * part(d.in[NormBackIn::kX], p)[i] * inverse[p];
    d.out().row<float>(0)[i] = static_cast<float>(sum);
  }
}

size_t inverse_bytes(const Dispatch& d, const RunExtent& run) {
  const int64_t most = d.in[NormBackIn::kX].rows < 0 ? run.rows : d.in[NormBackIn::kX].rows;
  return static_cast<size_t>(most * d.as<NormAttr>().groups) * sizeof(float);
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RmsNormIn::kX]) && is_matrix(d.in[RmsNormIn::kWeight]) &&
         absent_or_matrix(d.in[RmsNormAddIn::kResidual]) && is_matrix(d.out());
}

bool takes_matrix(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && absent_or_matrix(d.in[1]) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kRmsNorm, kRef, accepts, {"rms_norm", {rms_norm}}},
    {op::kRmsNormAdd, kRef, accepts, {"rms_norm", {rms_norm}}},
    {op::kL2Norm, kRef, takes_matrix, {"l2_norm", {l2_norm}}},
    {op::kL2NormBack, kRef, takes_matrix, {"l2_norm_back", {l2_norm_back}}},
    {op::kRmsNormBackX, kRef, accepts, {"rms_norm_back_x", {rms_norm_back_x}}},
    {op::kRmsNormBackW,
     kRef,
     accepts,
     {"rms_norm_back_w", {rms_norm_back_w}, nullptr, inverse_bytes}},
};

}  // namespace

KernelRows reference_rms_norm() { return kRows; }

}  // namespace veery

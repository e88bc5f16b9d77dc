#include <cmath>

#include "kernels/reference/reference.h"

namespace veery {
namespace {

struct Moments {
  double mean, inverse;  ///< inverse: 1 / sqrt(variance + eps)
};

Moments moments(const float* x, int64_t n, float eps) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(n) + eps)};
}

// Group g of a row begins at column g n. Its weight begins at g weight_step; with weight_step 0 all
// groups share one weight.
struct Parts {
  int64_t n, count, weight_step;
};
Parts parts_of(const Dispatch& d, const Operand& x, const Operand& weight) {
  const int64_t count = d.as<NormAttr>().groups;
  const int64_t n = x.cols / count;
  return {n, count, weight.cols == x.cols ? n : 0};
}

void layer_norm(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Parts parts = parts_of(d, d.in[LayerNormIn::kX], d.in[LayerNormIn::kWeight]);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t g = 0; g < parts.count; ++g) {
      const float* x = d.in[LayerNormIn::kX].row<float>(r) + g * parts.n;
      const float* weight = d.in[LayerNormIn::kWeight].row<float>(0) + g * parts.weight_step;
      const float* bias = d.in[LayerNormIn::kBias]
                              ? d.in[LayerNormIn::kBias].row<float>(0) + g * parts.weight_step
                              : nullptr;
      float* out = d.out().row<float>(r) + g * parts.n;
      const Moments m = moments(x, parts.n, d.as<NormAttr>().eps);
      for (int64_t i = 0; i < parts.n; ++i)
        out[i] = static_cast<float>((x[i] - m.mean) * m.inverse) * weight[i] +
                 (bias != nullptr ? bias[i] : 0);
    }
}

// With u = (x - mean) m, y = u w: dx = m (g - mean(g) - u mean(g u)), g = dy w.
void layer_norm_back_x(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Parts parts = parts_of(d, d.in[NormBackIn::kX], d.in[NormBackIn::kWeight]);
  const auto size = static_cast<double>(parts.n);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t g = 0; g < parts.count; ++g) {
      const float* dy = d.in[NormBackIn::kDy].row<float>(r) + g * parts.n;
      const float* x = d.in[NormBackIn::kX].row<float>(r) + g * parts.n;
      const float* weight = d.in[NormBackIn::kWeight].row<float>(0) + g * parts.weight_step;
      float* out = d.out().row<float>(r) + g * parts.n;
      const Moments m = moments(x, parts.n, d.as<NormAttr>().eps);
      double mean = 0, along = 0;
      for (int64_t i = 0; i < parts.n; ++i) {
        const double slope = double{dy[i]} * weight[i];
        mean += slope / size;
        along += slope * (x[i] - m.mean) * m.inverse / size;
      }
      for (int64_t i = 0; i < parts.n; ++i)
        out[i] = static_cast<float>(
            m.inverse * (double{dy[i]} * weight[i] - mean - along * (x[i] - m.mean) * m.inverse));
    }
}

void layer_norm_back_w(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Parts parts = parts_of(d, d.in[NormBackIn::kX], d.out());
  const int64_t rows = shape.count(d.in[NormBackIn::kX].rows);
  const Share columns = share(d.out().cols, 1, worker);
  for (int64_t c = columns.begin; c < columns.end; ++c) d.out().row<float>(0)[c] = 0;
  for (int64_t r = 0; r < rows && columns.begin < columns.end; ++r)
    for (int64_t g = 0; g < parts.count; ++g) {
      const float* dy = d.in[NormBackIn::kDy].row<float>(r) + g * parts.n;
      const float* x = d.in[NormBackIn::kX].row<float>(r) + g * parts.n;
      const Moments m = moments(x, parts.n, d.as<NormAttr>().eps);
      for (int64_t i = 0; i < parts.n; ++i) {
        const int64_t c = g * parts.weight_step + i;
        if (c >= columns.begin && c < columns.end)
          d.out().row<float>(0)[c] += static_cast<float>(dy[i] * (x[i] - m.mean) * m.inverse);
      }
    }
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LayerNormIn::kX]) && is_matrix(d.in[LayerNormIn::kWeight]) &&
         absent_or_matrix(d.in[LayerNormIn::kBias]) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kLayerNorm, kRef, accepts, {"layer_norm", {layer_norm}}},
    {op::kLayerNormBackX, kRef, accepts, {"layer_norm_back_x", {layer_norm_back_x}}},
    {op::kLayerNormBackW, kRef, accepts, {"layer_norm_back_w", {layer_norm_back_w}}},
};

}  // namespace

KernelRows reference_layer_norm() { return kRows; }

}  // namespace veery

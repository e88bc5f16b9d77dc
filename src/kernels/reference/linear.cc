#include <algorithm>
#include <limits>

#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {

float reference_dot(const float* a, const float* b, int64_t n) {
  float part[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) part[k] += a[i + k] * b[i + k];
  for (int k = 0; i < n; ++i, ++k) part[k] += a[i] * b[i];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

void reference_axpy(float a, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

namespace {

int64_t most_rows(const Operand& o, int64_t rows) { return o.rows < 0 ? rows : o.rows; }

// Returns a row of x; if the op has a norm, the normalised row in Dispatch::work.
const float* x_row(const Dispatch& d, int64_t r) {
  return d.in[FusedLinearIn::kNorm]
             ? reinterpret_cast<float*>(d.work) + r * d.in[FusedLinearIn::kX].cols
             : d.in[FusedLinearIn::kX].row<float>(r);
}

void normalise(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  if (!d.in[FusedLinearIn::kNorm]) return;
  const int64_t n = d.in[FusedLinearIn::kX].cols;
  const Share rows = share(shape.count(d.in[FusedLinearIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    reference_norm(d.in[FusedLinearIn::kX].row<float>(r), d.in[FusedLinearIn::kNorm].row<float>(0),
                   n, d.as<FusedLinearAttr>().eps, reinterpret_cast<float*>(d.work) + r * n);
}

float sequential_dot(const float* x, const float* w, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * w[i];
  return sum;
}

float bias(const Dispatch& d, int weight, int64_t n) {
  return d.in[FusedLinearIn::kBias + weight] ? d.in[FusedLinearIn::kBias + weight].row<float>(0)[n]
                                             : 0;
}

void store(const Dispatch& d, int64_t r, int64_t column, float y) {
  d.out().row<float>(r)[column] =
      d.in[FusedLinearIn::kResidual] ? y + d.in[FusedLinearIn::kResidual].row<float>(r)[column] : y;
}

void multiply(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<FusedLinearAttr>();
  const int64_t k = d.in[FusedLinearIn::kX].cols;
  const int64_t rows = shape.count(d.in[FusedLinearIn::kX].rows);
  const bool gated = attr.gate != Activation::kNone && attr.weights == 2;
  auto* w = reinterpret_cast<float*>(worker.scratch);
  int64_t column = 0;
  for (int i = 0; i < (gated ? 1 : attr.weights); ++i) {
    const Operand& weight = d.in[FusedLinearIn::kWeight + i];
    const Share outputs = share(weight.rows, 1, worker);
    for (int64_t n = outputs.begin; n < outputs.end; ++n) {
      decode_row(weight, n, w);
      if (gated) decode_row(d.in[FusedLinearIn::kWeight + 1], n, w + k);
      for (int64_t r = 0; r < rows; ++r) {
        float y = activated(sequential_dot(x_row(d, r), w, k) + bias(d, i, n), attr.gate);
        if (gated) y *= sequential_dot(x_row(d, r), w + k, k) + bias(d, 1, n);
        store(d, r, column + n, y * attr.scale);
      }
    }
    column += weight.rows;
  }
}

// The largest output of one worker's share, for one row.
struct Best {
  float value;
  int32_t index;
};

Best* best_of(const Dispatch& d, int64_t rows, int worker) {
  auto* after = reinterpret_cast<float*>(d.work) +
                (d.in[FusedLinearIn::kNorm] ? rows * d.in[FusedLinearIn::kX].cols : 0);
  return reinterpret_cast<Best*>(after) + worker * rows;
}

void multiply_best(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t k = d.in[FusedLinearIn::kX].cols;
  const int64_t rows = shape.count(d.in[FusedLinearIn::kX].rows);
  auto* w = reinterpret_cast<float*>(worker.scratch);
  Best* best = best_of(d, rows, worker.index);
  std::fill_n(best, rows, Best{-std::numeric_limits<float>::infinity(), -1});
  const Share outputs = share(d.in[FusedLinearIn::kWeight].rows, 1, worker);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    decode_row(d.in[FusedLinearIn::kWeight], n, w);
    for (int64_t r = 0; r < rows; ++r) {
      const float y =
          (sequential_dot(x_row(d, r), w, k) + bias(d, 0, n)) * d.as<FusedLinearAttr>().scale;
      if (y > best[r].value || best[r].index < 0) best[r] = {y, static_cast<int32_t>(n)};
    }
  }
}

void merge_best(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t rows = shape.count(d.in[FusedLinearIn::kX].rows);
  const Share own = share(rows, 1, worker);
  for (int64_t r = own.begin; r < own.end; ++r) {
    Best best = best_of(d, rows, 0)[r];
    for (int i = 1; i < worker.count; ++i) {
      const Best other = best_of(d, rows, i)[r];
      if (other.index >= 0 && (best.index < 0 || other.value > best.value)) best = other;
    }
    *d.out().row<int32_t>(r) = best.index;
  }
}

void linear_back_x(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  auto* w = reinterpret_cast<float*>(worker.scratch);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::fill_n(d.out().row<float>(r), d.out().cols, 0.0F);
  for (int64_t n = 0; n < d.in[LinearBackXIn::kWeight].rows && rows.begin < rows.end; ++n) {
    decode_row(d.in[LinearBackXIn::kWeight], n, w);
    for (int64_t r = rows.begin; r < rows.end; ++r)
      reference_axpy(d.in[LinearBackXIn::kDy].row<float>(r)[n], w, d.out().cols,
                     d.out().row<float>(r));
  }
}

void linear_back_w(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t rows = shape.count(d.in[LinearBackWIn::kDy].rows);
  const Share outputs = share(d.out().rows, 1, worker);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    float* out = d.out().row<float>(n);
    std::fill_n(out, d.out().cols, 0.0F);
    for (int64_t r = 0; r < rows; ++r)
      reference_axpy(d.in[LinearBackWIn::kDy].row<float>(r)[n],
                     d.in[LinearBackWIn::kX].row<float>(r), d.out().cols, out);
  }
}

// Sums over all rows, and over the parts of a row that share the bias.
void bias_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t rows = shape.count(d.in[BiasBackIn::kDy].rows);
  const Share columns = share(d.out().cols, 1, worker);
  for (int64_t c = columns.begin; c < columns.end; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = c; i < d.in[BiasBackIn::kDy].cols; i += d.out().cols)
        sum += d.in[BiasBackIn::kDy].row<float>(r)[i];
    d.out().row<float>(0)[c] = static_cast<float>(sum);
  }
}

size_t norm_bytes(const Dispatch& d, const RunExtent& run) {
  return d.in[FusedLinearIn::kNorm]
             ? static_cast<size_t>(most_rows(d.in[FusedLinearIn::kX], run.rows) *
                                   d.in[FusedLinearIn::kX].cols) *
                   sizeof(float)
             : 0;
}
size_t argmax_bytes(const Dispatch& d, const RunExtent& run) {
  return norm_bytes(d, run) +
         static_cast<size_t>(most_rows(d.in[FusedLinearIn::kX], run.rows) * run.workers) *
             sizeof(Best);
}
size_t two_weight_rows(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[FusedLinearIn::kX].cols) * 2 * sizeof(float);
}
size_t one_weight_row(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.out().cols) * sizeof(float);
}

bool takes_linear(const Dispatch& d, const KernelChoice&) {
  for (int i = 0; i < 3; ++i) {
    if (d.in[FusedLinearIn::kWeight + i] && !is_weight(d.in[FusedLinearIn::kWeight + i]))
      return false;
    if (!absent_or_matrix(d.in[FusedLinearIn::kBias + i])) return false;
  }
  return is_matrix(d.in[FusedLinearIn::kX]) && absent_or_matrix(d.in[FusedLinearIn::kNorm]) &&
         absent_or_matrix(d.in[FusedLinearIn::kResidual]) && d.out().layout == Layout::kRowMajor;
}
bool takes_back_x(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LinearBackXIn::kDy]) && is_weight(d.in[LinearBackXIn::kWeight]) &&
         is_matrix(d.out());
}
bool takes_back_w(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LinearBackWIn::kDy]) && is_matrix(d.in[LinearBackWIn::kX]) &&
         is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kFusedLinear,
     kRef,
     takes_linear,
     {"linear", {normalise, multiply}, norm_bytes, two_weight_rows}},
    {op::kLinearArgmax,
     kRef,
     takes_linear,
     {"linear_argmax", {normalise, multiply_best, merge_best}, argmax_bytes, two_weight_rows}},
    {op::kLinearBackX,
     kRef,
     takes_back_x,
     {"linear_back_x", {linear_back_x}, nullptr, one_weight_row}},
    {op::kLinearBackW, kRef, takes_back_w, {"linear_back_w", {linear_back_w}}},
    {op::kBiasBack, kRef, takes_back_w, {"bias_back", {bias_back}}},
};

}  // namespace

KernelRows reference_linear() { return kRows; }

}  // namespace veery

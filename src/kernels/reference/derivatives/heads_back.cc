// Derivatives of head_linear and linear_heads.
#include <algorithm>

#include "graph/ops/recurrence_back.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

/// Sizes of a head of head_linear: columns of x and y, rows and columns of its matrix.
struct Sizes {
  int64_t from, to, height, in;
};
Sizes sizes_of(const Dispatch& d, int64_t from_columns, const Operand& weight) {
  const int64_t heads = d.as<HeadsAttr>().heads;
  const int64_t height = weight.rows / heads, from = from_columns / heads;
  return {from, height + from - weight.cols, height, weight.cols};
}

void head_linear_back_x(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& weight = d.in[HeadLinearBackXIn::kWeight];
  const Sizes s = sizes_of(d, d.out().cols, weight);
  auto* w = reinterpret_cast<float*>(worker.scratch);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::fill_n(d.out().row<float>(r), d.out().cols, 0.0F);
  for (int64_t n = 0; n < weight.rows && rows.begin < rows.end; ++n) {
    decode_row(weight, n, w);
    const int64_t head = n / s.height;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* dy = d.in[HeadLinearBackXIn::kDy].row<float>(r) + head * s.to;
      float* out = d.out().row<float>(r) + head * s.from;
      reference_axpy(dy[n % s.height], w, s.in, out);
      if (n % s.height == 0) std::copy(dy + s.height, dy + s.to, out + s.in);
    }
  }
}

void head_linear_back_w(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[HeadLinearBackWIn::kX];
  const Sizes s = sizes_of(d, x.cols, d.out());
  const Share outputs = share(d.out().rows, 1, worker);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    const int64_t head = n / s.height;
    std::fill_n(d.out().row<float>(n), s.in, 0.0F);
    for (int64_t r = 0; r < shape.count(x.rows); ++r)
      reference_axpy(d.in[HeadLinearBackWIn::kDy].row<float>(r)[head * s.to + n % s.height],
                     x.row<float>(r) + head * s.from, s.in, d.out().row<float>(n));
  }
}

void head_linear_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& weight = d.in[HeadLinearTangentIn::kWeight];
  const Operand& moved = d.in[HeadLinearTangentIn::kTx];
  const Operand& moved_weight = d.in[HeadLinearTangentIn::kTweight];
  const Sizes s = sizes_of(d, d.in[HeadLinearTangentIn::kX].cols, weight);
  auto* w = reinterpret_cast<float*>(worker.scratch);
  float* tw = w + s.in;
  const Share outputs = share(weight.rows, 1, worker);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    decode_row(weight, n, w);
    if (moved_weight) decode_row(moved_weight, n, tw);
    const int64_t head = n / s.height;
    for (int64_t r = 0; r < shape.count(d.out().rows); ++r) {
      const float* x = d.in[HeadLinearTangentIn::kX].row<float>(r) + head * s.from;
      const float* tx = moved ? moved.row<float>(r) + head * s.from : nullptr;
      float* out = d.out().row<float>(r) + head * s.to;
      out[n % s.height] = (tx != nullptr ? reference_dot(tx, w, s.in) : 0) +
                          (moved_weight ? reference_dot(x, tw, s.in) : 0);
      if (n % s.height != 0) continue;
      for (int64_t i = s.height; i < s.to; ++i)
        out[i] = tx != nullptr ? tx[i - s.height + s.in] : 0;
    }
  }
}

// Part p of y is W_p times part p of x.
void linear_heads_back_x(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& weight = d.in[LinearHeadsBackXIn::kWeight];
  const int64_t size = weight.cols;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out().row<float>(r);
    std::fill_n(out, d.out().cols, 0.0F);
    for (int64_t c = 0; c < d.out().cols; ++c)
      reference_axpy(d.in[LinearHeadsBackXIn::kDy].row<float>(r)[c], weight.row<float>(c), size,
                     out + c / size * size);
  }
}

void linear_heads_back_w(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[LinearHeadsBackWIn::kX];
  const int64_t size = d.out().cols;
  const Share columns = share(d.out().rows, 1, worker);
  for (int64_t c = columns.begin; c < columns.end; ++c) {
    std::fill_n(d.out().row<float>(c), size, 0.0F);
    for (int64_t r = 0; r < shape.count(x.rows); ++r)
      reference_axpy(d.in[LinearHeadsBackWIn::kDy].row<float>(r)[c],
                     x.row<float>(r) + c / size * size, size, d.out().row<float>(c));
  }
}

size_t two_weight_rows(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[1].cols) * 2 * sizeof(float);
}

bool takes_back_x(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[HeadLinearBackXIn::kDy]) && is_weight(d.in[HeadLinearBackXIn::kWeight]) &&
         is_matrix(d.out());
}
bool takes_back_w(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.in[1]) && is_matrix(d.out());
}
bool takes_tangent(const Dispatch& d, const KernelChoice&) {
  const Operand& moved_weight = d.in[HeadLinearTangentIn::kTweight];
  return is_matrix(d.in[HeadLinearTangentIn::kX]) &&
         is_weight(d.in[HeadLinearTangentIn::kWeight]) &&
         absent_or_matrix(d.in[HeadLinearTangentIn::kTx]) &&
         (!moved_weight || is_weight(moved_weight)) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kHeadLinearBackX,
     kRef,
     takes_back_x,
     {"head_linear_back_x", {head_linear_back_x}, nullptr, two_weight_rows}},
    {op::kHeadLinearBackW, kRef, takes_back_w, {"head_linear_back_w", {head_linear_back_w}}},
    {op::kHeadLinearTangent,
     kRef,
     takes_tangent,
     {"head_linear_tangent", {head_linear_tangent}, nullptr, two_weight_rows}},
    {op::kLinearHeadsBackX, kRef, takes_back_w, {"linear_heads_back_x", {linear_heads_back_x}}},
    {op::kLinearHeadsBackW, kRef, takes_back_w, {"linear_heads_back_w", {linear_heads_back_w}}},
};

}  // namespace

KernelRows reference_heads_back() { return kRows; }

}  // namespace veery

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/formulas.h"
#include "kernels/common/pages.h"
#include "kernels/reference/reference.h"

// With the names of attend_back.cc and tangents t: tl_i = sum_j p_ij ts_ij and
//   to_i = sum_j p_ij (ts_ij v_j + tv_j) - tl_i o_i,  ts_ij = cap'(scale q_i k_j) scale (tq_i k_j +
//   q_i tk_j)
// All sums are accumulated in one pass, relative to the largest score so far.

namespace veery {
namespace {

/// A score with its tangent; `value` and `tangent` of the position may be null.
struct Seen {
  double score = 0, slope = 0;
  const float* value = nullptr;
  const float* tangent = nullptr;
};

/// Sums over the positions of one row and head.
struct Sums {
  int64_t size;    ///< of a value
  double* values;  ///< [size] of p v, not divided by `weights`
  double* moved;   ///< [size] of p (ts v + tv)
  double largest = -std::numeric_limits<double>::infinity();
  double weights = 0, slopes = 0;  ///< of p and p ts

  void add(const Seen& seen) {
    if (seen.score > largest) {
      const double shrink = std::exp(largest - seen.score);
      for (int64_t i = 0; i < size; ++i) values[i] *= shrink, moved[i] *= shrink;
      weights *= shrink, slopes *= shrink;
      largest = seen.score;
    }
    const double weight = std::exp(seen.score - largest);
    weights += weight;
    slopes += weight * seen.slope;
    for (int64_t i = 0; i < size && seen.value != nullptr; ++i) {
      values[i] += weight * seen.value[i];
      moved[i] += weight * seen.slope * seen.value[i];
    }
    for (int64_t i = 0; i < size && seen.tangent != nullptr; ++i)
      moved[i] += weight * seen.tangent[i];
  }
};

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n && a != nullptr && b != nullptr; ++i) sum += double{a[i]} * b[i];
  return sum;
}

struct View {
  const Dispatch& d;
  const RunShape& shape;
  const AttendAttr& attr = d.as<AttendAttr>();
  int64_t n = d.in[AttendIn::kQ].cols / attr.heads;

  // Returns a head of a row; nullptr if the input is absent.
  const float* at(int input, int64_t r, int64_t head, int64_t heads) const {
    const Operand& o = d.in[static_cast<size_t>(input)];
    return o ? o.row<float>(r) + head * (o.cols / heads) : nullptr;
  }
  Seen see(int64_t i, int64_t row, int64_t h, int64_t j) const {
    const int64_t kv = h / (attr.heads / attr.kv_heads), kv_heads = attr.kv_heads;
    const float* q = at(AttendIn::kQ, i, h, attr.heads);
    const float* k = at(AttendIn::kK, j, kv, kv_heads);
    const double raw = attr.scale * dot(q, k, n);
    const double moved = attr.scale * (dot(at(AttendTangentIn::kTq, i, h, attr.heads), k, n) +
                                       dot(q, at(AttendTangentIn::kTk, j, kv, kv_heads), n));
    const double t = attr.softcap > 0 ? std::tanh(raw / attr.softcap) : 0;
    const auto distance = static_cast<double>(std::abs(shape.position(j) - shape.position(row)));
    return {(attr.softcap > 0 ? attr.softcap * t : raw) - alibi_slope(attr, h) * distance,
            moved * (1 - t * t), at(AttendIn::kV, j, kv, kv_heads),
            at(AttendTangentIn::kTv, j, kv, kv_heads)};
  }
  bool chosen(int64_t i, int64_t j) const {
    const Operand& list = d.in[AttendIn::kChosen];
    if (!list) return true;
    const auto* positions = list.row<int32_t>(i);
    return std::find(positions, positions + list.cols, shape.position(j)) != positions + list.cols;
  }
};

void attend_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const View view{d, shape};
  const int64_t heads = view.attr.heads, size = d.out().cols / heads;
  auto* values = reinterpret_cast<double*>(worker.scratch);
  const Share items = share(shape.count(d.out().rows) * heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t i = item / heads, h = item % heads;
    const int64_t row = shape.token_row(d.out().rows, i);
    const Span& span = shape.span(row);
    const PositionRange range = visible(view.attr, span, shape.position(row));
    const int64_t shift = span.first_row - span.position;
    std::fill_n(values, 2 * size, 0.0);
    Sums sums{size, values, values + size};
    for (int64_t j = std::max<int64_t>(range.first + shift, span.first_row);
         j <= range.last + shift; ++j)
      if (view.chosen(i, j)) sums.add(view.see(i, row, h, j));
    if (const float* sinks = view.at(AttendIn::kSinks, 0, 0, 1)) {
      const float* moved = view.at(AttendTangentIn::kTsinks, 0, 0, 1);
      sums.add({sinks[h], moved != nullptr ? moved[h] : 0.0F});
    }
    const double log_sum = sums.slopes / sums.weights;
    float* out = d.out().row<float>(i) + h * size;
    for (int64_t c = 0; c < size; ++c)
      out[c] = static_cast<float>((sums.moved[c] - log_sum * sums.values[c]) / sums.weights);
    if (const Operand& result = d.outputs[AttendOut::kLogSum])
      result.row<float>(i)[h] = static_cast<float>(log_sum);
  }
}

size_t sums_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.out().cols / d.as<AttendAttr>().heads) * 2 * sizeof(double);
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  for (int i = 0; i <= AttendTangentIn::kTsinks; ++i)
    if (i != AttendIn::kChosen && !absent_or_matrix(d.in[static_cast<size_t>(i)])) return false;
  return is_matrix(d.out());
}

constexpr KernelRow kRows[] = {
    {op::kAttendTangent,
     Target::kReference,
     accepts,
     {"attend_tangent", {attend_tangent}, nullptr, sums_bytes}},
};

}  // namespace

KernelRows reference_attend_tangent() { return kRows; }

}  // namespace veery

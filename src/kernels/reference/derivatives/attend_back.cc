#include <algorithm>
#include <cmath>

#include "kernels/common/formulas.h"
#include "kernels/common/pages.h"
#include "kernels/reference/reference.h"

// With s_ij = cap(scale q_i k_j) + slope |j - i|, l_i = log sum_j exp(s_ij), p_ij = exp(s_ij -
// l_i), o_i = sum_j p_ij v_j and dp_ij = dy_i v_j:
//   ds_ij = p_ij (dp_ij - dy_i o_i + dl_i) cap'(scale q_i k_j) scale
//   dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i,  dv_j = sum_i p_ij dy_i
// because sum_j p_ij dp_ij = dy_i o_i (Dao et al., arXiv:2205.14135). The first phase computes
// dy_i o_i - dl_i, the second accumulates the gradients, one result row at a time. A sink is a
// score with value 0, so it changes only l_i, and its gradient is sum_i p_i (dl_i - dy_i o_i).

namespace veery {
namespace {

struct View {
  const Dispatch& d;
  const RunShape& shape;
  const AttendAttr& attr = d.as<AttendAttr>();
  int64_t rows = shape.count(d.in[AttendBackIn::kQ].rows);     ///< of q
  int64_t kv_rows = shape.count(d.in[AttendBackIn::kK].rows);  ///< of k and v
  int64_t n = d.in[AttendBackIn::kQ].cols / attr.heads;        ///< size of a key
  int64_t values = d.in[AttendBackIn::kDy].cols / attr.heads;  ///< size of a value
  int64_t group = attr.heads / attr.kv_heads;
  float* means = reinterpret_cast<float*>(d.work);  ///< [row][head] dy_i o_i - dl_i

  // Returns a head of a row of q, dy or y, or of the keys and values that it attends to.
  const float* at(int input, int64_t r, int64_t h) const {
    const Operand& o = d.in[static_cast<size_t>(input)];
    const bool of_keys = input == AttendBackIn::kK || input == AttendBackIn::kV;
    return o.row<float>(r) +
           (of_keys ? h / group * (o.cols / attr.kv_heads) : h * (o.cols / attr.heads));
  }
  // Returns the row of the run that row i of q belongs to.
  int64_t token_row(int64_t i) const { return shape.token_row(d.in[AttendBackIn::kQ].rows, i); }
  // Returns the rows of keys that row i of q sees, before the choice of positions.
  Share visible_rows(int64_t i) const {
    const int64_t row = token_row(i);
    const Span& span = shape.span(row);
    const PositionRange seen = visible(attr, span, shape.position(row));
    const int64_t shift = span.first_row - span.position;
    return {std::max<int64_t>(seen.first + shift, span.first_row), seen.last + shift + 1};
  }
  bool chosen(int64_t i, int64_t j) const {
    const Operand& list = d.in[AttendBackIn::kChosen];
    if (!list) return true;
    const auto* positions = list.row<int32_t>(i);
    return std::find(positions, positions + list.cols, shape.position(j)) != positions + list.cols;
  }
  bool sees(int64_t i, int64_t j) const {
    const Share seen = visible_rows(i);
    return j >= seen.begin && j < seen.end && chosen(i, j);
  }
  float raw_score(int64_t i, int64_t h, int64_t j) const {
    return attr.scale * reference_dot(at(AttendBackIn::kQ, i, h), at(AttendBackIn::kK, j, h), n);
  }
  float score(int64_t i, int64_t h, int64_t j, float raw) const {
    const float capped = attr.softcap > 0 ? softcap(raw, attr.softcap) : raw;
    const auto distance =
        static_cast<float>(std::abs(shape.position(j) - shape.position(token_row(i))));
    return capped - alibi_slope(attr, h) * distance;
  }
  float dp(int64_t i, int64_t h, int64_t j) const {
    return reference_dot(at(AttendBackIn::kDy, i, h), at(AttendBackIn::kV, j, h), values);
  }
  float p(int64_t i, int64_t h, int64_t j, float raw) const {
    return std::exp(score(i, h, j, raw) - d.in[AttendBackIn::kLogSum].row<float>(i)[h]);
  }
  float ds(int64_t i, int64_t h, int64_t j) const {
    const float raw = raw_score(i, h, j);
    const float slope = attr.softcap > 0 ? softcap_slope(raw, attr.softcap) : 1;
    return p(i, h, j, raw) * (dp(i, h, j) - means[i * attr.heads + h]) * slope * attr.scale;
  }
};

void find_means(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const View view{d, shape};
  const int64_t heads = view.attr.heads;
  const Operand& dlog_sum = d.in[AttendBackIn::kDlogSum];
  const Share items = share(view.rows * heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t i = item / heads;
    const int64_t h = item % heads;
    const float mean = reference_dot(view.at(AttendBackIn::kDy, i, h),
                                     view.at(AttendBackIn::kY, i, h), view.values);
    view.means[item] = dlog_sum ? mean - dlog_sum.row<float>(i)[h] : mean;
  }
}

void sum_dq(const View& view, int64_t i, int64_t h) {
  float* out = view.d.outputs[0].row<float>(i) + h * view.n;
  std::fill_n(out, view.n, 0.0F);
  const Share seen = view.visible_rows(i);
  for (int64_t j = seen.begin; j < seen.end; ++j)
    if (view.chosen(i, j))
      reference_axpy(view.ds(i, h, j), view.at(AttendBackIn::kK, j, h), view.n, out);
}

// Computes row j of dk (output 1) or dv (output 2). Only rows of its span can see row j. Keys that
// hold values have dimensions without a value, whose dv is 0.
void sum_over_rows(const View& view, int output, int64_t j, int64_t kv_head) {
  const Operand& result = view.d.outputs[static_cast<size_t>(output)];
  const int64_t size = result.cols / view.attr.kv_heads;
  float* out = result.row<float>(j) + kv_head * size;
  std::fill_n(out, size, 0.0F);
  const Span& span = view.shape.span(j);
  for (int64_t i = 0; i < view.rows; ++i) {
    const int64_t row = view.token_row(i);
    if (row < span.first_row || row >= span.end_row() || !view.sees(i, j)) continue;
    for (int64_t h = kv_head * view.group; h < (kv_head + 1) * view.group; ++h) {
      if (output == 1)
        reference_axpy(view.ds(i, h, j), view.at(AttendBackIn::kQ, i, h), view.n, out);
      else
        reference_axpy(view.p(i, h, j, view.raw_score(i, h, j)), view.at(AttendBackIn::kDy, i, h),
                       view.values, out);
    }
  }
}

// Computes those of dq, dk and dv that are requested.
void sum_parts(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const View view{d, shape};
  for (int output = 0; output < 3; ++output) {
    if (!d.outputs[static_cast<size_t>(output)]) continue;
    const int64_t heads = output == 0 ? view.attr.heads : view.attr.kv_heads;
    const int64_t rows = output == 0 ? view.rows : view.kv_rows;
    // Rows are distributed round-robin, because late queries and early keys have the most work.
    for (int64_t item = worker.index; item < rows * heads; item += worker.count) {
      if (output == 0)
        sum_dq(view, item / heads, item % heads);
      else
        sum_over_rows(view, output, item / heads, item % heads);
    }
  }
}

void sum_sinks(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.as<AttendAttr>().heads;
  const int64_t size = d.in[AttendBackSinksIn::kY].cols / heads;
  const Operand& dlog_sum = d.in[AttendBackSinksIn::kDlogSum];
  const Share own = share(heads, 1, worker);
  for (int64_t h = own.begin; h < own.end; ++h) {
    double sum = 0;
    for (int64_t i = 0; i < shape.count(d.in[AttendBackSinksIn::kY].rows); ++i) {
      const double p = std::exp(double{d.in[AttendBackSinksIn::kSinks].row<float>(0)[h]} -
                                d.in[AttendBackSinksIn::kLogSum].row<float>(i)[h]);
      const float mean = reference_dot(d.in[AttendBackSinksIn::kDy].row<float>(i) + h * size,
                                       d.in[AttendBackSinksIn::kY].row<float>(i) + h * size, size);
      sum += p * ((dlog_sum ? dlog_sum.row<float>(i)[h] : 0) - mean);
    }
    d.out().row<float>(0)[h] = static_cast<float>(sum);
  }
}

size_t means_bytes(const Dispatch& d, const RunExtent& run) {
  const int64_t most = d.in[AttendBackIn::kQ].rows < 0 ? run.rows : d.in[AttendBackIn::kQ].rows;
  return static_cast<size_t>(most * d.as<AttendAttr>().heads) * sizeof(float);
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[AttendBackIn::kDy]) && is_matrix(d.in[AttendBackIn::kQ]) &&
         is_matrix(d.in[AttendBackIn::kK]) && is_matrix(d.in[AttendBackIn::kV]) &&
         is_matrix(d.in[AttendBackIn::kY]) && is_matrix(d.in[AttendBackIn::kLogSum]) &&
         absent_or_matrix(d.in[AttendBackIn::kDlogSum]) &&
         (!d.in[AttendBackIn::kChosen] || is_matrix(d.in[AttendBackIn::kChosen], DType::kI32));
}
bool accepts_sinks(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[AttendBackSinksIn::kDy]) && is_matrix(d.in[AttendBackSinksIn::kY]) &&
         is_matrix(d.in[AttendBackSinksIn::kLogSum]) &&
         is_matrix(d.in[AttendBackSinksIn::kSinks]) &&
         absent_or_matrix(d.in[AttendBackSinksIn::kDlogSum]) && is_matrix(d.out());
}

constexpr KernelRow kRows[] = {
    {op::kAttendBack,
     Target::kReference,
     accepts,
     {"attend_back", {find_means, sum_parts}, means_bytes}},
    {op::kAttendBackSinks, Target::kReference, accepts_sinks, {"attend_back_sinks", {sum_sinks}}},
};

}  // namespace

KernelRows reference_attend_back() { return kRows; }

}  // namespace veery

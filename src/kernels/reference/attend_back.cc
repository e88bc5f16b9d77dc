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
// dy_i o_i - dl_i, the second accumulates the gradients, one result row at a time.

namespace veery {
namespace {

struct View {
  const Dispatch& d;
  const RunShape& shape;
  const AttendAttr& attr = d.as<AttendAttr>();
  int64_t rows = shape.count(d.in[AttendBackIn::kQ].rows);
  int64_t n = d.in[AttendBackIn::kQ].cols / attr.heads;
  int64_t group = attr.heads / attr.kv_heads;
  float* means = reinterpret_cast<float*>(d.work);  ///< [row][head] dy_i o_i - dl_i

  const float* at(int input, int64_t r, int64_t h) const {
    return d.in[input].row<float>(r) + h * n;
  }
  // Returns the rows that row i sees.
  Share seen(int64_t i) const {
    const Span& span = shape.span(i);
    const PositionRange seen = visible(attr, span, shape.position(i));
    const int64_t shift = span.first_row - span.position;
    return {std::max<int64_t>(seen.first + shift, span.first_row), seen.last + shift + 1};
  }
  float raw_score(int64_t i, int64_t h, int64_t j) const {
    return attr.scale *
           reference_dot(at(AttendBackIn::kQ, i, h), at(AttendBackIn::kK, j, h / group), n);
  }
  float score(int64_t i, int64_t h, int64_t j, float raw) const {
    const float capped = attr.softcap > 0 ? softcap(raw, attr.softcap) : raw;
    const auto distance = static_cast<float>(std::abs(shape.position(j) - shape.position(i)));
    return capped - alibi_slope(attr, h) * distance;
  }
  float dp(int64_t i, int64_t h, int64_t j) const {
    return reference_dot(at(AttendBackIn::kDy, i, h), at(AttendBackIn::kV, j, h / group), n);
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
    const float mean =
        reference_dot(view.at(AttendBackIn::kDy, i, h), view.at(AttendBackIn::kY, i, h), view.n);
    view.means[item] = dlog_sum ? mean - dlog_sum.row<float>(i)[h] : mean;
  }
}

void sum_dq(const View& view, int64_t i, int64_t h) {
  float* out = view.d.outputs[0].row<float>(i) + h * view.n;
  std::fill_n(out, view.n, 0.0F);
  const Share seen = view.seen(i);
  for (int64_t j = seen.begin; j < seen.end; ++j)
    reference_axpy(view.ds(i, h, j), view.at(AttendBackIn::kK, j, h / view.group), view.n, out);
}

// Computes row j of dk (output 1) or dv (output 2). Only rows of its span can see row j.
void sum_over_rows(const View& view, int output, int64_t j, int64_t kv_head) {
  float* out = view.d.outputs[static_cast<size_t>(output)].row<float>(j) + kv_head * view.n;
  std::fill_n(out, view.n, 0.0F);
  const Span& span = view.shape.span(j);
  for (int64_t i = span.first_row; i < span.end_row(); ++i) {
    const Share seen = view.seen(i);
    if (j < seen.begin || j >= seen.end) continue;
    for (int64_t h = kv_head * view.group; h < (kv_head + 1) * view.group; ++h) {
      if (output == 1)
        reference_axpy(view.ds(i, h, j), view.at(AttendBackIn::kQ, i, h), view.n, out);
      else
        reference_axpy(view.p(i, h, j, view.raw_score(i, h, j)), view.at(AttendBackIn::kDy, i, h),
                       view.n, out);
    }
  }
}

// Computes those of dq, dk and dv that are requested.
void sum_parts(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const View view{d, shape};
  for (int output = 0; output < 3; ++output) {
    if (!d.outputs[static_cast<size_t>(output)]) continue;
    const int64_t heads = output == 0 ? view.attr.heads : view.attr.kv_heads;
    // Rows are distributed round-robin, because late queries and early keys have the most work.
    for (int64_t item = worker.index; item < view.rows * heads; item += worker.count) {
      if (output == 0)
        sum_dq(view, item / heads, item % heads);
      else
        sum_over_rows(view, output, item / heads, item % heads);
    }
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
         absent_or_matrix(d.in[AttendBackIn::kDlogSum]);
}

constexpr KernelRow kRows[] = {
    {op::kAttendBack,
     Target::kReference,
     accepts,
     {"attend_back", {find_means, sum_parts}, means_bytes}},
};

}  // namespace

KernelRows reference_attend_back() { return kRows; }

}  // namespace veery

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/common/softmax_mass.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

void embed(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const float factor = d.as<ScaleAttr>().factor;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out().row<float>(r);
    decode_row(d.in[EmbedIn::kWeight], *d.in[EmbedIn::kIds].row<int32_t>(r), out);
    for (int32_t c = 0; c < d.out().cols; ++c) out[c] *= factor;
  }
}

void embed_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const float factor = d.as<ScaleAttr>().factor;
  const Share tokens = share(shape.count(d.out().rows), 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t)
    std::fill_n(d.out().row<float>(t), d.out().cols, 0.0F);
  for (int64_t r = 0, rows = shape.count(d.in[EmbedBackIn::kDy].rows); r < rows; ++r) {
    const int32_t token = *d.in[EmbedBackIn::kIds].row<int32_t>(r);
    if (token >= tokens.begin && token < tokens.end)
      reference_axpy(factor, d.in[EmbedBackIn::kDy].row<float>(r), d.out().cols,
                     d.out().row<float>(token));
  }
}

void select_rows(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::copy_n(d.in[SelectRowsIn::kX].row<float>(*d.in[SelectRowsIn::kRows].row<int32_t>(r)),
                d.out().cols, d.out().row<float>(r));
}

void select_rows_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::fill_n(d.out().row<float>(r), d.out().cols, 0.0F);
  for (int64_t i = 0, selected = shape.count(d.in[SelectRowsBackIn::kDy].rows); i < selected; ++i) {
    const int32_t r = *d.in[SelectRowsBackIn::kRows].row<int32_t>(i);
    if (r >= rows.begin && r < rows.end)
      reference_axpy(1, d.in[SelectRowsBackIn::kDy].row<float>(i), d.out().cols,
                     d.out().row<float>(r));
  }
}

void assign(const Dispatch& d, const RunShape&, const Worker& worker) {
  const Operand& x = d.in[AssignIn::kX];
  const Share rows = share(d.out().rows, 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::memcpy(d.out().row<std::byte>(r), x.row<std::byte>(r), byte_size(x.dtype, x.cols));
}

void argmax(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = d.in[UnaryIn::kX].row<float>(r);
    *d.out().row<int32_t>(r) =
        static_cast<int32_t>(std::max_element(x, x + d.in[UnaryIn::kX].cols) - x);
  }
}

// Selects the largest elements of a row, in descending order. NaNs are skipped; missing elements
// become -infinity with index -1.
void top_of_row(const float* x, int64_t n, std::span<float> values, std::span<int32_t> indices) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  size_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) continue;
    size_t at = count;
    while (at > 0 && x[i] > values[at - 1]) --at;
    if (at == values.size()) continue;
    if (count < values.size()) ++count;
    std::copy_backward(&values[at], &values[count - 1], values.data() + count);
    std::copy_backward(&indices[at], &indices[count - 1], indices.data() + count);
    values[at] = x[i];
    indices[at] = static_cast<int32_t>(i);
  }
  std::ranges::fill(values.subspan(count), -kInfinity);
  std::ranges::fill(indices.subspan(count), -1);
}

void top_k(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[UnaryIn::kX];
  const auto count = static_cast<size_t>(d.as<TopKAttr>().count);
  const Share rows = share(shape.count(x.rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* values = d.outputs[TopKOut::kValues].row<float>(r);
    int32_t* indices = d.outputs[TopKOut::kIndices].row<int32_t>(r);
    top_of_row(x.row<float>(r), x.cols, {values, count}, {indices, count});
    *d.outputs[TopKOut::kMass].row<float>(r) = static_cast<float>(softmax_mass(
        {x.row<float>(r), static_cast<size_t>(x.cols)}, indices[0] < 0 ? 0 : values[0]));
  }
}

void columns_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ColumnsAttr>();
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out().row<float>(r);
    std::fill_n(out, attr.width, 0.0F);
    std::copy_n(d.in[0].row<float>(r), attr.count, out + attr.begin);
  }
}

// Returns the weight of row i of `count` rows, for all kinds except kMax.
double pool_weight(Pooling kind, int64_t i, int64_t count) {
  const auto n = static_cast<double>(count);
  switch (kind) {
    case Pooling::kFirst: return i == 0 ? 1 : 0;
    case Pooling::kLast: return i == count - 1 ? 1 : 0;
    case Pooling::kMean: return 1 / n;
    case Pooling::kSumOverRoot: return 1 / std::sqrt(n);
    case Pooling::kWeightedMean: return 2 * static_cast<double>(i + 1) / (n * (n + 1));
    case Pooling::kMax: break;
  }
  return 0;
}

// Returns the row of a span with the largest element of a column; the first one wins ties.
int64_t row_of_largest(const Operand& x, const Span& span, int32_t column) {
  int64_t best = span.first_row;
  for (int64_t r = best + 1; r < span.end_row(); ++r)
    if (x.row<float>(r)[column] > x.row<float>(best)[column]) best = r;
  return best;
}

void pool(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Pooling kind = d.as<PoolAttr>().kind;
  const Operand& x = d.in[UnaryIn::kX];
  const int32_t n = d.out().cols;
  const Share items = share(int64_t{shape.span_count} * n, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const Span& span = shape.spans[item / n];
    const auto column = static_cast<int32_t>(item % n);
    float& out = d.out().row<float>(item / n)[column];
    if (kind == Pooling::kMax) {
      out = x.row<float>(row_of_largest(x, span, column))[column];
      continue;
    }
    double sum = 0;
    for (int64_t i = 0; i < span.rows; ++i)
      if (const double weight = pool_weight(kind, i, span.rows); weight != 0)
        sum += weight * x.row<float>(span.first_row + i)[column];
    out = static_cast<float>(sum);
  }
}

void pool_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Pooling kind = d.as<PoolAttr>().kind;
  const Operand& x = d.in[PoolBackIn::kX];
  const Share spans = share(shape.span_count, 1, worker);
  for (int64_t s = spans.begin; s < spans.end; ++s) {
    const Span& span = shape.spans[s];
    const float* dy = d.in[PoolBackIn::kDy].row<float>(s);
    for (int32_t c = 0; c < d.out().cols; ++c) {
      const int64_t best = kind == Pooling::kMax ? row_of_largest(x, span, c) : -1;
      for (int64_t i = 0; i < span.rows; ++i) {
        const int64_t r = span.first_row + i;
        const double weight = kind == Pooling::kMax ? static_cast<double>(r == best)
                                                    : pool_weight(kind, i, span.rows);
        d.out().row<float>(r)[c] = static_cast<float>(weight * dy[c]);
      }
    }
  }
}

// The tangent of a maximum is that of the row which has it.
void pool_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share spans = share(shape.span_count, 1, worker);
  for (int64_t s = spans.begin; s < spans.end; ++s)
    for (int32_t c = 0; c < d.out().cols; ++c) {
      const int64_t best = row_of_largest(d.in[PoolTangentIn::kX], shape.spans[s], c);
      d.out().row<float>(s)[c] = d.in[PoolTangentIn::kTx].row<float>(best)[c];
    }
}

void shift(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const Span& span = shape.span(r);
    const int64_t from = r - d.as<ShiftAttr>().by;
    float* out = d.out().row<float>(r);
    if (from >= span.first_row && from < span.end_row())
      std::copy_n(d.in[UnaryIn::kX].row<float>(from), d.out().cols, out);
    else
      std::fill_n(out, d.out().cols, 0.0F);
  }
}

bool takes_embed(const Dispatch& d, const KernelChoice&) {
  return is_weight(d.in[EmbedIn::kWeight]) && is_matrix(d.out());
}
bool takes_matrix(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.out());
}
bool takes_assign(const Dispatch& d, const KernelChoice&) {
  return d.in[AssignIn::kX].layout == Layout::kRowMajor && d.out().layout == Layout::kRowMajor;
}
bool takes_argmax(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.out(), DType::kI32);
}

bool takes_top_k(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.outputs[TopKOut::kValues]) &&
         is_matrix(d.outputs[TopKOut::kIndices], DType::kI32) &&
         is_matrix(d.outputs[TopKOut::kMass]);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kEmbed, kRef, takes_embed, {"embed", {embed}}},
    {op::kEmbedBack, kRef, takes_matrix, {"embed_back", {embed_back}}},
    {op::kSelectRows, kRef, takes_matrix, {"select_rows", {select_rows}}},
    {op::kSelectRowsBack, kRef, takes_matrix, {"select_rows_back", {select_rows_back}}},
    {op::kAssign, kRef, takes_assign, {"assign", {assign}}},
    {op::kColumnsBack, kRef, takes_matrix, {"columns_back", {columns_back}}},
    {op::kPool, kRef, takes_matrix, {"pool", {pool}}},
    {op::kPoolBack, kRef, takes_matrix, {"pool_back", {pool_back}}},
    {op::kPoolTangent, kRef, takes_matrix, {"pool_tangent", {pool_tangent}}},
    {op::kShift, kRef, takes_matrix, {"shift", {shift}}},
    {op::kArgmax, kRef, takes_argmax, {"argmax", {argmax}}},
    {op::kTopK, kRef, takes_top_k, {"top_k", {top_k}}},
};

}  // namespace

KernelRows reference_rows() { return kRows; }

}  // namespace veery

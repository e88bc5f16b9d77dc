#include "tensor/reduce.h"

#include <algorithm>

#include "tensor/element_group.h"
#include "tensor/elementwise.h"

namespace veery::tensor {
namespace {

Shape without(const Shape& shape, const std::vector<int>& axes, bool keep) {
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int>(i));
    if (!reduced) result.push_back(shape[i]);
    if (reduced && keep) result.push_back(1);
  }
  return result;
}

// Reduces x. No elements give the neutral one.
Tensor reduce(std::string_view function, ReduceOp op, const Tensor& x, const Axes& axes,
              bool keep) {
  const std::vector<int> chosen = axes_of(function, axes, x.rank());
  const Shape shape = without(x.shape(), chosen, false);
  const Tensor y = chosen.empty() ? x : make(Reduce(op, chosen), {x}, {shape, x.dtype()});
  return keep ? reshape(y, without(x.shape(), chosen, true)) : y;
}

// The extremes of no elements are not defined.
void require_elements(std::string_view function, const Tensor& x, const Axes& axes) {
  for (const int axis : axes_of(function, axes, x.rank()))
    if (x.dim(axis) == 0)
      fail(ErrorKind::kInput, "{}: axis {} of {} is empty", function, axis, text(x.shape()));
}

// Sums of integers of fewer bits would overflow.
Tensor widened(const Tensor& x) { return is_float(x.dtype()) ? x : astype(x, Dtype::kI64); }

double count_of(std::string_view function, const Tensor& x, const Axes& axes) {
  double count = 1;
  for (const int axis : axes_of(function, axes, x.rank()))
    count *= static_cast<double>(x.dim(axis));
  return count;
}

}  // namespace

std::string_view Reduce::name() const {
  switch (op_) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kProduct: return "prod";
    case ReduceOp::kMinimum: return "min";
    case ReduceOp::kMaximum: return "max";
  }
  return "";
}

std::vector<Data> Reduce::evaluate(std::span<const Operand> in, std::span<const Spec> out) const {
  return {evaluate_one(*this, in.front(), out.front())};
}

// y, of the shape of the output, repeated to that of the input.
Tensor Reduce::spread(const Tensor& y, const Tensor& x) const {
  return broadcast_to(reshape(y, without(x.shape(), axes_, true)), x.shape());
}

// The derivative of the output with respect to each element of x.
Tensor Reduce::weights(const Tensor& x, const Tensor& y) const {
  if (op_ == ReduceOp::kProduct) return products_of_others(x);
  const Tensor is_extreme = equal(x, spread(y, x));
  const Axes axes(axes_.begin(), axes_.end());
  const Dtype wide = x.dtype() == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  const Tensor share = 1 / astype(sum(is_extreme, axes), wide);
  return where(is_extreme, spread(astype(share, x.dtype()), x), 0);
}

// For each element of x the product of the others: of those before it and of those after it.
// Division would be wrong where elements are 0.
Tensor Reduce::products_of_others(const Tensor& x) const {
  Axes order;
  for (int i = 0; i < x.rank(); ++i)
    if (!std::binary_search(axes_.begin(), axes_.end(), i)) order.push_back(i);
  const auto kept = static_cast<size_t>(order.size());
  order.insert(order.end(), axes_.begin(), axes_.end());
  const Tensor moved = transpose(x, order);
  Shape lines(moved.shape().begin(), moved.shape().begin() + static_cast<ptrdiff_t>(kept));
  lines.push_back(x.size() == 0 ? 0 : x.size() / element_count(lines));
  const auto before = [&](const Tensor& line) {
    std::vector<Slice> all_but_last(lines.size());
    all_but_last.back() = {0, -1, 1};
    Shape one = lines;
    one.back() = std::min<int64_t>(one.back(), 1);
    return concatenate({ones(one, x.dtype()), slice(cumprod(line), all_but_last)}, -1);
  };
  const Tensor line = reshape(moved, lines);
  const Tensor others = before(line) * flip(before(flip(line, {-1})), {-1});
  Axes inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return transpose(reshape(others, moved.shape()), inverse);
}

std::vector<Tensor> Reduce::vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                                std::span<const Tensor> cotangents,
                                const std::vector<bool>&) const {
  const Tensor& x = in.front();
  const Tensor spread_out = spread(cotangents.front(), x);
  if (op_ == ReduceOp::kSum) return {spread_out};
  return {spread_out * weights(x, out.front())};
}

std::vector<Tensor> Reduce::jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                                std::span<const Tensor> tangents) const {
  const Axes axes(axes_.begin(), axes_.end());
  if (op_ == ReduceOp::kSum) return {sum(tangents.front(), axes)};
  return {sum(tangents.front() * weights(in.front(), out.front()), axes)};
}

std::vector<Tensor> Reduce::batch(const Batch& in, std::span<const Spec> out) const {
  std::vector<int> axes = axes_;
  for (int& axis : axes) ++axis;
  return {make(Reduce(op_, std::move(axes)), {in[0]},
               {with_first(in.size(), out.front().shape), out.front().dtype})};
}

Tensor sum(const Tensor& x, const Axes& axes, bool keep) {
  require("sum", x);
  return reduce("sum", ReduceOp::kSum, widened(x), axes, keep);
}
Tensor prod(const Tensor& x, const Axes& axes, bool keep) {
  require("prod", x);
  return reduce("prod", ReduceOp::kProduct, widened(x), axes, keep);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keep) {
  require("mean", x);
  const Tensor total = sum(as_wide_float(x), axes, keep);
  return astype(total / count_of("mean", x, axes), float_type(x));
}

Tensor var(const Tensor& x, const Axes& axes, bool keep, double correction) {
  require("var", x);
  const Tensor values = as_wide_float(x);
  const Tensor distance = values - mean(values, axes, true);
  const double count = std::max(count_of("var", x, axes) - correction, 0.0);
  return astype(sum(distance * distance, axes, keep) / count, float_type(x));
}

Tensor std_dev(const Tensor& x, const Axes& axes, bool keep, double correction) {
  require("std_dev", x);
  return astype(sqrt(var(as_wide_float(x), axes, keep, correction)), float_type(x));
}

Tensor min(const Tensor& x, const Axes& axes, bool keep) {
  require("min", x);
  require_elements("min", x, axes);
  if (x.dtype() == Dtype::kBool) return all(x, axes, keep);
  return reduce("min", ReduceOp::kMinimum, x, axes, keep);
}
Tensor max(const Tensor& x, const Axes& axes, bool keep) {
  require("max", x);
  require_elements("max", x, axes);
  if (x.dtype() == Dtype::kBool) return any(x, axes, keep);
  return reduce("max", ReduceOp::kMaximum, x, axes, keep);
}

Tensor any(const Tensor& x, const Axes& axes, bool keep) {
  require("any", x);
  const Tensor bytes = astype(astype(x, Dtype::kBool), Dtype::kU8);
  return not_equal(reduce("any", ReduceOp::kMaximum, bytes, axes, keep), 0);
}
Tensor all(const Tensor& x, const Axes& axes, bool keep) {
  require("all", x);
  const Tensor bytes = astype(astype(x, Dtype::kBool), Dtype::kU8);
  return not_equal(reduce("all", ReduceOp::kMinimum, bytes, axes, keep), 0);
}

// The largest element is taken out of the exponentials; infinite ones stay infinite. The sum of no
// elements is 0, whose logarithm is -infinity.
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keep) {
  require("logsumexp", x);
  const Tensor values = as_wide_float(x);
  if (count_of("logsumexp", x, axes) == 0)
    return astype(log(sum(exp(values), axes, keep)), float_type(x));
  const Tensor most = stop_gradient(max(values, axes, true));
  const Tensor shift = where(isfinite(most), most, 0);
  const Tensor sums = log(sum(exp(values - shift), axes, true)) + shift;
  const Shape shape = without(x.shape(), axes_of("logsumexp", axes, x.rank()), keep);
  return astype(reshape(sums, shape), float_type(x));
}

Tensor softmax(const Tensor& x, int axis) {
  require("softmax", x);
  if (count_of("softmax", x, {axis}) == 0) return astype(x, float_type(x));
  const Tensor values = as_wide_float(x);
  const Tensor powers = exp(values - stop_gradient(max(values, {axis}, true)));
  return astype(powers / sum(powers, {axis}, true), float_type(x));
}
Tensor log_softmax(const Tensor& x, int axis) {
  require("log_softmax", x);
  if (count_of("log_softmax", x, {axis}) == 0) return astype(x, float_type(x));
  const Tensor values = as_wide_float(x);
  const Tensor shifted = values - stop_gradient(max(values, {axis}, true));
  return astype(shifted - log(sum(exp(shifted), {axis}, true)), float_type(x));
}

}  // namespace veery::tensor

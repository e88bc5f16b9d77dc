#include "tensor/views.h"

#include <algorithm>
#include <numeric>

#include "tensor/element_group.h"

namespace veery::tensor {
namespace {

Range range_of(const Slice& slice, int64_t size) {
  const int64_t step = slice.step;
  // As Python's slice.indices().
  const auto bound = [&](std::optional<int64_t> given, int64_t absent) {
    if (!given) return absent;
    const int64_t at = *given < 0 ? *given + size : *given;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t start = bound(slice.start, step > 0 ? 0 : size - 1);
  const int64_t stop = bound(slice.stop, step > 0 ? size : -1);
  const int64_t distance = step > 0 ? stop - start : start - stop;
  const int64_t stride = step > 0 ? step : -std::max(step, -INT64_MAX);
  const int64_t count = distance > 0 ? (distance - 1) / stride + 1 : 0;
  // The step from an only element does not matter. It may be too large for a stride.
  return {count > 0 ? start : 0, count, count > 1 ? step : 1};
}

}  // namespace

Data Broadcast::view(const Operand& in, const Spec& out) const {
  Data data = *in.data;
  const size_t added = out.shape.size() - in.spec->shape.size();
  data.strides.insert(data.strides.begin(), added, 0);
  for (size_t i = 0; i < out.shape.size(); ++i)
    if (i < added || in.spec->shape[i - added] == 1) data.strides[i] = 0;
  return data;
}

Tensor Broadcast::back(const Tensor& y, const Tensor& x) const {
  Axes axes;
  const size_t added = y.shape().size() - x.shape().size();
  for (size_t i = 0; i < y.shape().size(); ++i)
    if (i < added || (x.shape()[i - added] == 1 && y.shape()[i] != 1))
      axes.push_back(static_cast<int>(i));
  return axes.empty() ? y : reshape(astype(sum(y, axes), y.dtype()), x.shape());
}

Tensor Broadcast::of_batch(const Tensor& x, const Shape& shape) const {
  Shape wide = x.shape();
  wide.insert(wide.begin() + 1, shape.size() + 1 - wide.size(), 1);
  return broadcast_to(reshape(x, wide), with_first(x.dim(0), shape));
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  require("broadcast_to", x);
  check_shape("broadcast_to", shape);
  if (x.shape() == shape) return x;
  if (broadcast("broadcast_to", x.shape(), shape) != shape)
    fail(ErrorKind::kInput, "broadcast_to: shape {} cannot be broadcast to {}", text(x.shape()),
         text(shape));
  return make(Broadcast(), {x}, {shape, x.dtype()});
}

Data Transpose::view(const Operand& in, const Spec&) const {
  Data data = *in.data;
  for (size_t i = 0; i < order_.size(); ++i)
    data.strides[i] = in.data->strides[static_cast<size_t>(order_[i])];
  return data;
}

Tensor Transpose::back(const Tensor& y, const Tensor&) const {
  Axes inverse(order_.size());
  for (size_t i = 0; i < order_.size(); ++i)
    inverse[static_cast<size_t>(order_[i])] = static_cast<int>(i);
  return transpose(y, inverse);
}

Tensor Transpose::again(const Tensor& x, const Shape&) const { return transpose(x, order_); }

Tensor Transpose::of_batch(const Tensor& x, const Shape&) const {
  Axes order{0};
  for (const int axis : order_) order.push_back(axis + 1);
  return transpose(x, order);
}

Tensor transpose(const Tensor& x, const Axes& order) {
  require("transpose", x);
  const int rank = x.rank();
  std::vector<int> axes(static_cast<size_t>(rank));
  if (order.empty()) {
    std::iota(axes.rbegin(), axes.rend(), 0);
  } else {
    if (static_cast<int>(order.size()) != rank)
      fail(ErrorKind::kInput, "transpose: {} axes for a tensor with {} dimensions", order.size(),
           rank);
    axes_of("transpose", order, rank);  // each once
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = axis_of("transpose", order[i], rank);
  }
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  Shape shape;
  for (const int axis : axes) shape.push_back(x.shape()[static_cast<size_t>(axis)]);
  return make(Transpose(axes), {x}, {std::move(shape), x.dtype()});
}

Tensor swapaxes(const Tensor& x, int a, int b) {
  require("swapaxes", x);
  Axes order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis_of("swapaxes", a, x.rank()))],
            order[static_cast<size_t>(axis_of("swapaxes", b, x.rank()))]);
  return order.empty() ? x : transpose(x, order);
}

Tensor moveaxis(const Tensor& x, int from, int to) {
  require("moveaxis", x);
  Axes order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  const int source = axis_of("moveaxis", from, x.rank());
  order.erase(order.begin() + source);
  order.insert(order.begin() + axis_of("moveaxis", to, x.rank()), source);
  return transpose(x, order);
}

std::vector<Range> ranges_of(std::string_view function, const std::vector<Slice>& slices,
                             const Shape& shape) {
  if (slices.size() > shape.size())
    fail(ErrorKind::kInput, "{}: {} slices of a tensor with {} dimensions", function, slices.size(),
         shape.size());
  std::vector<Range> ranges;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Slice slice = i < slices.size() ? slices[i] : Slice{};
    if (slice.step == 0) fail(ErrorKind::kInput, "{}: the step of axis {} is 0", function, i);
    ranges.push_back(range_of(slice, shape[i]));
    ranges.back().size = shape[i];
  }
  return ranges;
}

bool same_for_any_shape(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::ranges::equal(a, b, [](const Range& x, const Range& y) {
    return (x.is_whole() && y.is_whole()) || x == y;
  });
}

std::vector<Slice> slices_of(const std::vector<Range>& ranges) {
  std::vector<Slice> slices;
  for (const Range& range : ranges) {
    const int64_t stop = range.first + range.count * range.step;
    Slice slice{range.first, std::nullopt, range.step};
    if (stop >= 0) slice.stop = stop;
    if (range.count == 0) slice = {0, 0, 1};
    slices.push_back(slice);
  }
  return slices;
}

Shape shape_of(const std::vector<Range>& ranges) {
  Shape shape;
  for (const Range& range : ranges) shape.push_back(range.count);
  return shape;
}

Data take_ranges(const Data& data, const std::vector<Range>& ranges) {
  Data result = data;
  for (size_t i = 0; i < ranges.size(); ++i) {
    result.offset += ranges[i].first * data.strides[i];
    result.strides[i] *= ranges[i].step;
  }
  return result;
}

Data Slicing::view(const Operand& in, const Spec&) const { return take_ranges(*in.data, ranges_); }

Tensor Slicing::back(const Tensor& y, const Tensor& x) const {
  return slice_update(zeros(x.shape(), y.dtype()), slices_of(ranges_), y);
}

Tensor Slicing::again(const Tensor& x, const Shape&) const { return slice(x, slices_of(ranges_)); }

Tensor Slicing::of_batch(const Tensor& x, const Shape&) const {
  std::vector<Slice> slices = slices_of(ranges_);
  slices.insert(slices.begin(), Slice{});
  return slice(x, slices);
}

Tensor slice(const Tensor& x, const std::vector<Slice>& slices) {
  require("slice", x);
  std::vector<Range> ranges = ranges_of("slice", slices, x.shape());
  Shape shape = shape_of(ranges);
  if (std::ranges::all_of(ranges, &Range::is_whole)) return x;
  return make(Slicing(std::move(ranges)), {x}, {std::move(shape), x.dtype()});
}

Tensor flip(const Tensor& x, const Axes& axes) {
  require("flip", x);
  std::vector<Slice> slices(static_cast<size_t>(x.rank()));
  for (const int axis : axes_of("flip", axes, x.rank()))
    slices[static_cast<size_t>(axis)].step = -1;
  return slice(x, slices);
}

std::optional<Strides> reshaped_strides(const Shape& from, const Strides& strides,
                                        const Shape& shape) {
  if (element_count(from) == 0) return contiguous_strides(shape);
  // Dimensions of size 1 do not matter; neighbours that are traversed as one are merged.
  std::vector<std::pair<int64_t, int64_t>> runs;  // {size, stride}
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1) continue;
    if (!runs.empty() && runs.back().second == strides[i] * from[i])
      runs.back() = {runs.back().first * from[i], strides[i]};
    else
      runs.emplace_back(from[i], strides[i]);
  }
  Strides result(shape.size());
  size_t run = runs.size();
  int64_t left = 1, stride = 1;  // of the run that is being divided
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      result[i] = stride;
      continue;
    }
    if (left == 1) {
      --run;
      left = runs[run].first;
      stride = runs[run].second;
    }
    if (left % shape[i] != 0) return std::nullopt;
    result[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return result;
}

Data Reshape::view(const Operand& in, const Spec& out) const {
  if (auto strides = reshaped_strides(in.spec->shape, in.data->strides, out.shape))
    return {in.data->buffer, in.data->offset, std::move(*strides)};
  Data copy = evaluate_one(ElementOp::kCopy, {&in, 1}, *in.spec);
  copy.strides = contiguous_strides(out.shape);
  return copy;
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  require("reshape", x);
  Shape to = shape, others = shape;
  std::replace(others.begin(), others.end(), int64_t{-1}, int64_t{1});
  check_shape("reshape", others);
  const int64_t known = element_count(others);
  const auto free = std::find(to.begin(), to.end(), -1);
  if (free != to.end() && known > 0 && x.size() % known == 0) *free = x.size() / known;
  if (std::find(to.begin(), to.end(), -1) != to.end() || element_count(to) != x.size())
    fail(ErrorKind::kInput, "reshape: {} cannot have the shape {}", text(x.shape()), text(shape));
  if (to == x.shape()) return x;
  return make(Reshape(), {x}, {std::move(to), x.dtype()});
}

Data AsStrided::view(const Operand& in, const Spec&) const {
  Data data = *in.data;
  if (data.strides != contiguous_strides(in.spec->shape))
    data = evaluate_one(ElementOp::kCopy, {&in, 1}, *in.spec);
  return {data.buffer, data.offset + offset_, strides_};
}

// The index of each element of the result in the flattened input.
Tensor AsStrided::places(const Shape& shape) const {
  Tensor sum = full({}, offset_, Dtype::kI64);
  for (size_t i = 0; i < shape.size(); ++i) {
    Shape one(shape.size(), 1);
    one[i] = shape[i];
    const Tensor steps = arange(0, static_cast<double>(shape[i]), 1, Dtype::kI64) * strides_[i];
    sum = sum + reshape(steps, one);
  }
  return broadcast_to(sum, shape);
}

Tensor AsStrided::back(const Tensor& y, const Tensor& x) const {
  const Tensor sums = scatter_add(zeros({x.size()}, y.dtype()), places(y.shape()), y);
  return reshape(sums, x.shape());
}
Tensor AsStrided::again(const Tensor& x, const Shape& shape) const {
  return as_strided(x, shape, strides_, offset_);
}
Tensor AsStrided::of_batch(const Tensor& x, const Shape& shape) const {
  Strides strides = strides_;
  strides.insert(strides.begin(), x.dim(0) == 0 ? 0 : x.size() / x.dim(0));
  return as_strided(x, with_first(x.dim(0), shape), strides, offset_);
}

Tensor as_strided(const Tensor& x, const Shape& shape, const std::vector<int64_t>& strides,
                  int64_t offset) {
  require("as_strided", x);
  check_shape("as_strided", shape);
  if (strides.size() != shape.size())
    fail(ErrorKind::kInput, "as_strided: {} strides for the shape {}", strides.size(), text(shape));
  // The least and the greatest index; without elements nothing is read.
  int64_t least = offset, most = offset;
  bool is_valid = true;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t span = 0;
    is_valid = is_valid &&
               !__builtin_mul_overflow(std::max<int64_t>(shape[i] - 1, 0), strides[i], &span) &&
               !__builtin_add_overflow(span < 0 ? least : most, span, span < 0 ? &least : &most);
  }
  if (element_count(shape) > 0 && (!is_valid || least < 0 || most >= x.size()))
    fail(ErrorKind::kInput,
         "as_strided: shape {}, strides {} and offset {} reach outside of {} elements", text(shape),
         text(strides), offset, x.size());
  if (element_count(shape) == 0) return broadcast_to(zeros({}, x.dtype()), shape);
  return make(AsStrided(strides, offset), {x}, {shape, x.dtype()});
}

Tensor expand_dims(const Tensor& x, int axis) {
  require("expand_dims", x);
  Shape shape = x.shape();
  shape.insert(shape.begin() + axis_of("expand_dims", axis, x.rank() + 1), 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  require("squeeze", x);
  const std::vector<int> chosen = axes_of("squeeze", axes, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t size = x.shape()[static_cast<size_t>(i)];
    const bool is_chosen = std::binary_search(chosen.begin(), chosen.end(), i);
    if (is_chosen && size != 1 && !axes.empty())
      fail(ErrorKind::kInput, "squeeze: axis {} of {} has size {}, expected 1", i, text(x.shape()),
           size);
    if (!is_chosen || size != 1) shape.push_back(size);
  }
  return reshape(x, shape);
}

Tensor merge_batches(const Tensor& x) {
  Shape shape(x.shape().begin() + 1, x.shape().end());
  shape.front() *= x.dim(0);
  return reshape(x, shape);
}
Tensor part_batches(const Tensor& x, int64_t size, const Shape& of_sample) {
  return reshape(x, with_first(size, of_sample));
}

Tensor flatten(const Tensor& x) {
  require("flatten", x);
  return reshape(x, {x.size()});
}

}  // namespace veery::tensor

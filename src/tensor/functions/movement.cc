// Functions that move elements: joining, updating and repeating parts of tensors.
#include <algorithm>
#include <cstring>

#include "tensor/element_group.h"
#include "tensor/elementwise.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

// Writes x to the ranges of `to`.
void write(const Operand& x, const Data& to, Dtype type, const std::vector<Range>& ranges) {
  const Data part = take_ranges(to, ranges);
  std::byte* first = part.buffer->data() + part.offset * static_cast<int64_t>(byte_size(type));
  copy_elements(x.spec->shape, x, first, type, part.strides);
}

// Sums and products of sizes. One that is too large becomes INT64_MAX, which no shape may have.
int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

std::vector<Range> whole(const Shape& shape) {
  std::vector<Range> ranges;
  for (const int64_t size : shape) ranges.push_back({0, size, 1});
  return ranges;
}

class Concatenate : public Operation {
 public:
  explicit Concatenate(size_t axis) : axis_(axis) {}
  std::string_view name() const override { return "concatenate"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Concatenate::axis_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    Data data = new_data(out.front());
    int64_t at = 0;
    for (const Operand& x : in) {
      std::vector<Range> ranges = whole(x.spec->shape);
      ranges[axis_].first = at;
      at += ranges[axis_].count;
      write(x, data, out.front().dtype, ranges);
    }
    return {std::move(data)};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    std::vector<Tensor> result;
    int64_t at = 0;
    for (const Tensor& x : in) {
      std::vector<Slice> slices(axis_ + 1);
      slices[axis_] = {at, at + x.shape()[axis_], 1};
      at += x.shape()[axis_];
      result.push_back(slice(cotangents.front(), slices));
    }
    return result;
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < in.size(); ++i)
      parts.push_back(tangents[i] ? tangents[i] : zeros_like(in[i]));
    return {concatenate(parts, static_cast<int>(axis_))};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < in.count(); ++i) parts.push_back(in.with_batch(i));
    return {concatenate(parts, static_cast<int>(axis_) + 1)};
  }

 private:
  size_t axis_;
};

/// x with the elements in `ranges` replaced by those of the second input.
class SliceUpdate : public Operation {
 public:
  explicit SliceUpdate(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}
  std::string_view name() const override { return "slice_update"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    const auto* same = dynamic_cast<const SliceUpdate*>(&other);
    return same != nullptr && same_for_any_shape(ranges_, same->ranges_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    Data data = new_data(out.front());
    write(in[0], data, out.front().dtype, whole(out.front().shape));
    write(in[1], data, out.front().dtype, ranges_);
    return {std::move(data)};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    const std::vector<Slice> slices = slices_of(ranges_);
    return {slice_update(cotangents.front(), slices, zeros_like(in[1])),
            slice(cotangents.front(), slices)};
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {slice_update(tangents[0] ? tangents[0] : zeros_like(in[0]), slices_of(ranges_),
                         tangents[1] ? tangents[1] : zeros_like(in[1]))};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    std::vector<Slice> slices = slices_of(ranges_);
    slices.insert(slices.begin(), Slice{});
    return {slice_update(in.with_batch(0), slices, in[1])};
  }

 private:
  std::vector<Range> ranges_;
};

// The types of all parts, promoted.
std::vector<Tensor> promoted(std::string_view function, const std::vector<Tensor>& parts) {
  if (parts.empty()) fail(ErrorKind::kInput, "{}: there are no tensors", function);
  for (const Tensor& part : parts) require(function, part);
  Dtype type = parts.front().dtype();
  for (const Tensor& part : parts) type = promote(type, part.dtype());
  std::vector<Tensor> result;
  for (const Tensor& part : parts) result.push_back(astype(part, type));
  return result;
}

}  // namespace

Tensor concatenate(const std::vector<Tensor>& parts, int axis) {
  std::vector<Tensor> all = promoted("concatenate", parts);
  const auto along = static_cast<size_t>(axis_of("concatenate", axis, all.front().rank()));
  Shape shape = all.front().shape();
  shape[along] = 0;
  for (const Tensor& part : all) {
    Shape other = part.shape();
    if (other.size() == shape.size()) other[along] = shape[along];
    if (other != shape)
      fail(ErrorKind::kInput, "concatenate: shapes {} and {} differ beside axis {}",
           text(all.front().shape()), text(part.shape()), along);
    shape[along] = plus(shape[along], part.shape()[along]);
  }
  if (all.size() == 1) return all.front();
  const Dtype type = all.front().dtype();
  return make(Concatenate(along), std::move(all), {std::move(shape), type});
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  std::vector<Tensor> rows;
  for (const Tensor& part : promoted("stack", parts)) {
    if (part.shape() != parts.front().shape())
      fail(ErrorKind::kInput, "stack: shapes {} and {} differ", text(parts.front().shape()),
           text(part.shape()));
    rows.push_back(expand_dims(part, axis));
  }
  return concatenate(rows, axis);
}

std::vector<Tensor> split(const Tensor& x, int64_t parts, int axis) {
  require("split", x);
  const auto along = static_cast<size_t>(axis_of("split", axis, x.rank()));
  const int64_t size = x.shape()[along];
  if (parts < 1 || size % parts != 0)
    fail(ErrorKind::kInput, "split: {} elements of axis {} in {} parts", size, axis, parts);
  std::vector<Tensor> result;
  for (int64_t i = 0; i < parts; ++i) {
    std::vector<Slice> slices(along + 1);
    slices[along] = {i * (size / parts), (i + 1) * (size / parts), 1};
    result.push_back(slice(x, slices));
  }
  return result;
}

Tensor slice_update(const Tensor& x, const std::vector<Slice>& slices, const Tensor& update) {
  require("slice_update", x);
  require("slice_update", update);
  std::vector<Range> ranges = ranges_of("slice_update", slices, x.shape());
  const Tensor part = broadcast_to(astype(update, x.dtype()), shape_of(ranges));
  return make(SliceUpdate(std::move(ranges)), {x, part}, {x.shape(), x.dtype()});
}

Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& widths, Scalar value) {
  require("pad", x);
  if (widths.size() != x.shape().size())
    fail(ErrorKind::kInput, "pad: {} widths for a tensor with {} dimensions", widths.size(),
         x.rank());
  Shape shape = x.shape();
  std::vector<Slice> slices;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto [before, after] = widths[i];
    if (before < 0 || after < 0)
      fail(ErrorKind::kInput, "pad: width {} of axis {}, expected 0 or more",
           std::min(before, after), i);
    slices.push_back({before, plus(before, shape[i]), 1});
    shape[i] = plus(shape[i], plus(before, after));
  }
  return slice_update(full(shape, value, x.dtype()), slices, x);
}

Tensor repeat(const Tensor& x, int64_t count, int axis) {
  require("repeat", x);
  const int along = axis_of("repeat", axis, x.rank());
  if (count < 0) fail(ErrorKind::kInput, "repeat: count {}, expected 0 or more", count);
  Shape shape = x.shape();
  Shape wide = shape;
  wide.insert(wide.begin() + along + 1, count);
  shape[static_cast<size_t>(along)] = times(shape[static_cast<size_t>(along)], count);
  return reshape(broadcast_to(expand_dims(x, along + 1), wide), shape);
}

Tensor tile(const Tensor& x, const Shape& counts) {
  require("tile", x);
  Tensor y = x;
  while (y.shape().size() < counts.size()) y = expand_dims(y, 0);
  const size_t added = y.shape().size() - counts.size();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) fail(ErrorKind::kInput, "tile: count {}, expected 0 or more", counts[i]);
    const size_t axis = added + i;
    Shape shape = y.shape();
    Shape wide = shape;
    wide.insert(wide.begin() + static_cast<ptrdiff_t>(axis), counts[i]);
    shape[axis] = times(shape[axis], counts[i]);
    y = reshape(broadcast_to(expand_dims(y, static_cast<int>(axis)), wide), shape);
  }
  return y;
}

Tensor diff(const Tensor& x, int64_t order, int axis) {
  require("diff", x);
  const auto along = static_cast<size_t>(axis_of("diff", axis, x.rank()));
  if (order < 0) fail(ErrorKind::kInput, "diff: order {}, expected 0 or more", order);
  Tensor y = x;
  for (int64_t i = 0; i < order && y.shape()[along] > 0; ++i) {
    std::vector<Slice> later(along + 1), earlier(along + 1);
    later[along].start = 1;
    earlier[along].stop = y.shape()[along] - 1;
    const Tensor a = slice(y, later), b = slice(y, earlier);
    y = x.dtype() == Dtype::kBool ? not_equal(a, b) : a - b;
  }
  return y;
}

Tensor roll(const Tensor& x, int64_t shift, int axis) {
  require("roll", x);
  const auto along = static_cast<size_t>(axis_of("roll", axis, x.rank()));
  const int64_t size = x.shape()[along];
  if (size == 0) return x;
  const int64_t cut = (size - shift % size) % size;  // the element that becomes the first
  if (cut == 0) return x;
  std::vector<Slice> head(along + 1), tail(along + 1);
  head[along] = {0, cut, 1};
  tail[along] = {cut, size, 1};
  return concatenate({slice(x, tail), slice(x, head)}, static_cast<int>(along));
}

}  // namespace veery::tensor

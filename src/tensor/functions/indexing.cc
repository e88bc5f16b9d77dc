// Functions that read or add to elements at computed indices.
#include <cstring>

#include "tensor/elementwise.h"
#include "tensor/lines.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

// An index counted from the front.
int64_t place_of(std::string_view function, int64_t index, int64_t size) {
  const int64_t place = index < 0 ? index + size : index;
  if (place < 0 || place >= size)
    fail(ErrorKind::kInput, "{}: index {} of an axis with {} elements", function, index, size);
  return place;
}
// All indices, checked before workers use them.
std::vector<int64_t> places_of(std::string_view function, const Operand& indices, int64_t size) {
  const Data data = contiguous(indices, Dtype::kI64);
  std::vector<int64_t> places(static_cast<size_t>(element_count(indices.spec->shape)));
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = place_of(function, elements<int64_t>(data)[i], size);
  return places;
}

void require_indices(std::string_view function, const Tensor& indices) {
  require(function, indices);
  if (!is_integer(indices.dtype()))
    fail(ErrorKind::kInput, "{}: indices of type {}, expected integers", function,
         name(indices.dtype()));
}

void require_numbers(std::string_view function, const Tensor& x) {
  if (x.dtype() == Dtype::kBool)
    fail(ErrorKind::kInput, "{}: a tensor of bool, expected numbers", function);
}

// take() or take_along_axis() on a device.
Data take_on(TensorDevice& kernels, std::string_view function, std::span<const Operand> in,
             const Spec& out, size_t axis, bool along) {
  const Data x = contiguous(in[0], in[0].spec->dtype);
  const Data indices = contiguous(in[1], Dtype::kI64);
  Data data = new_data(out);
  IndexedLines lines = indexed_lines(x, *in[0].spec, axis, data);
  lines.indices = elements<int64_t>(indices);
  lines.along = along;
  lines.to = along ? Lines(out.shape, axis).along : element_count(in[1].spec->shape);
  kernels.take(function, lines);
  return data;
}

/// The indices that elements have: all the same, those of their sample in the first dimension (of x
/// and indices), or those of their line (take_along_axis()).
enum class Sharing : uint8_t { kAll, kSamples, kLines };

Tensor take_rows(const Tensor& x, const Tensor& indices, size_t axis, Sharing sharing);
Tensor add_rows(const Tensor& x, const Tensor& indices, const Tensor& updates, size_t axis,
                Sharing sharing);

/// Rows of one axis. Inputs: x, indices.
class Take : public Operation {
 public:
  Take(size_t axis, Sharing sharing) : axis_(axis), sharing_(sharing) {}
  std::string_view name() const override { return "take"; }
  bool runs_on_devices() const override { return sharing_ == Sharing::kAll; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Take::axis_, &Take::sharing_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    if (TensorDevice* kernels = current_kernels())
      return {take_on(*kernels, name(), in, out.front(), axis_, false)};
    const Lines x(in[0].spec->shape, axis_);
    const std::vector<int64_t> places = places_of(name(), in[1], x.along);
    const int64_t samples = sharing_ == Sharing::kSamples ? in[0].spec->shape.front() : 1;
    const int64_t count = samples == 0 ? 0 : static_cast<int64_t>(places.size()) / samples;
    const Data from = contiguous(in[0], in[0].spec->dtype);
    Data data = new_data(out.front());
    const auto bytes = static_cast<int64_t>(byte_size(out.front().dtype));
    const std::byte* source = from.buffer->data() + from.offset * bytes;
    each_line(x.outer * count, x.inner, [&](int64_t line) {
      const int64_t outer = line / count, sample = outer / (x.outer / samples);
      const int64_t row =
          outer * x.along + places[static_cast<size_t>(sample * count + line % count)];
      std::memcpy(data.buffer->data() + line * x.inner * bytes, source + row * x.inner * bytes,
                  static_cast<size_t>(x.inner * bytes));
    });
    return {std::move(data)};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    return {add_rows(zeros_like(in[0]), in[1], cotangents.front(), axis_, sharing_), {}};
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {take_rows(tangents.front(), in[1], axis_, sharing_)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    if (sharing_ == Sharing::kSamples)
      return {part_batches(take_rows(merge_batches(in.with_batch(0)),
                                     merge_batches(in.with_batch(1)), axis_, sharing_),
                           in.size(), out.front().shape)};
    if (!in.is_mapped(1)) return {take_rows(in[0], in[1], axis_ + 1, sharing_)};
    if (!in.is_mapped(0))
      return {moveaxis(take_rows(in[0], in[1], axis_, sharing_), static_cast<int>(axis_), 0)};
    return {take_rows(in[0], in[1], axis_ + 1, Sharing::kSamples)};
  }

 private:
  size_t axis_;
  Sharing sharing_;
};

// Adds x to y; integers wrap around.
template <typename T>
void add_to(T& y, T x) {
  if constexpr (std::is_floating_point_v<T>)
    y += x;
  else
    y = static_cast<T>(static_cast<uint64_t>(y) + static_cast<uint64_t>(x));
}

/// Inputs: x, indices, updates. Sums of f16 and bf16 are taken in f32.
class ScatterAdd : public Operation {
 public:
  ScatterAdd(size_t axis, Sharing sharing) : axis_(axis), sharing_(sharing) {}
  std::string_view name() const override {
    return along() ? "scatter_add_along_axis" : "scatter_add";
  }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &ScatterAdd::axis_, &ScatterAdd::sharing_);
  }
  bool runs_on_devices() const override { return sharing_ != Sharing::kSamples; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Dtype type = computed_dtype(out.front().dtype);
    const Spec wide{out.front().shape, type};
    const Lines y(wide.shape, axis_);
    Data sums = new_data(wide);
    const Operand target{&wide, &sums};
    copy_elements(wide.shape, in[0], target.first(), type, sums.strides);
    const Data updates = contiguous(in[2], type);
    if (TensorDevice* kernels = current_kernels()) {
      add_on(*kernels, in, updates, wide, sums);
      if (type == out.front().dtype) return {std::move(sums)};
      return {evaluate_one(ElementOp::kCast, {&target, 1}, out.front())};
    }
    const std::vector<int64_t> places = places_of(name(), in[1], y.along);
    // Each worker has elements of its own, which get their updates in the order of the indices.
    with_number(type, [&](auto sample) {
      using T = decltype(sample);
      auto* to = elements<T>(sums);
      const auto* from = elements<T>(updates);
      const int64_t samples = sharing_ == Sharing::kSamples ? wide.shape.front() : 1;
      const int64_t count = along()        ? in[2].spec->shape[axis_]
                            : samples == 0 ? 0
                                           : static_cast<int64_t>(places.size()) / samples;
      each_line(y.count(), count, [&](int64_t line) {
        const int64_t outer = line / y.inner, inner = line % y.inner;
        const int64_t shared = outer / (y.outer / samples) * count;
        for (int64_t j = 0; j < count; ++j) {
          const int64_t at = (outer * count + j) * y.inner + inner;
          const int64_t place = places[static_cast<size_t>(along() ? at : shared + j)];
          add_to(to[(outer * y.along + place) * y.inner + inner], from[at]);
        }
      });
    });
    if (type == out.front().dtype) return {std::move(sums)};
    return {evaluate_one(ElementOp::kCast, {&target, 1}, out.front())};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    const Tensor& t = cotangents.front();
    return {t, {}, take_rows(t, in[1], axis_, sharing_)};
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    const Tensor x = tangents[0] ? tangents[0] : zeros_like(in[0]);
    return {tangents[2] ? add_rows(x, in[1], tangents[2], axis_, sharing_) : x};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    const Tensor x = in.with_batch(0), updates = in.with_batch(2);
    if (sharing_ == Sharing::kSamples)
      return {part_batches(add_rows(merge_batches(x), merge_batches(in.with_batch(1)),
                                    merge_batches(updates), axis_, sharing_),
                           in.size(), out.front().shape)};
    if (along()) return {add_rows(x, in.with_batch(1), updates, axis_ + 1, sharing_)};
    if (!in.is_mapped(1)) return {add_rows(x, in[1], updates, axis_ + 1, sharing_)};
    return {add_rows(x, in[1], updates, axis_ + 1, Sharing::kSamples)};
  }

 private:
  void add_on(TensorDevice& kernels, std::span<const Operand> in, const Data& updates,
              const Spec& wide, const Data& sums) const {
    const Data indices = contiguous(in[1], Dtype::kI64);
    IndexedLines lines = indexed_lines(updates, wide, axis_, sums);
    lines.indices = elements<int64_t>(indices);
    lines.along = along();
    lines.to = along() ? Lines(in[2].spec->shape, axis_).along : element_count(in[1].spec->shape);
    kernels.scatter_add(name(), lines);
  }
  bool along() const { return sharing_ == Sharing::kLines; }
  size_t axis_;
  Sharing sharing_;
};

/// Inputs: x and indices, whose shapes differ along the axis only.
class TakeAlongAxis : public Operation {
 public:
  explicit TakeAlongAxis(size_t axis) : axis_(axis) {}
  std::string_view name() const override { return "take_along_axis"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &TakeAlongAxis::axis_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    if (TensorDevice* kernels = current_kernels())
      return {take_on(*kernels, name(), in, out.front(), axis_, true)};
    const Lines x(in[0].spec->shape, axis_), y(out.front().shape, axis_);
    const std::vector<int64_t> places = places_of(name(), in[1], x.along);
    const Data from = contiguous(in[0], in[0].spec->dtype);
    Data data = new_data(out.front());
    const auto bytes = static_cast<int64_t>(byte_size(out.front().dtype));
    const std::byte* source = from.buffer->data() + from.offset * bytes;
    each_line(y.outer, y.along * y.inner, [&](int64_t outer) {
      for (int64_t i = 0; i < y.along * y.inner; ++i) {
        const int64_t at = outer * y.along * y.inner + i;
        const int64_t row = outer * x.along + places[static_cast<size_t>(at)];
        std::memcpy(data.buffer->data() + at * bytes,
                    source + (row * x.inner + i % y.inner) * bytes, static_cast<size_t>(bytes));
      }
    });
    return {std::move(data)};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    return {add_rows(zeros_like(in[0]), in[1], cotangents.front(), axis_, Sharing::kLines), {}};
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {take_rows(tangents.front(), in[1], axis_, Sharing::kLines)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    return {take_rows(in.with_batch(0), in.with_batch(1), axis_ + 1, Sharing::kLines)};
  }

 private:
  size_t axis_;
};

// The shape of take().
Shape taken_shape(const Tensor& x, const Tensor& indices, size_t axis,
                  Sharing sharing = Sharing::kAll) {
  Shape shape(x.shape().begin(), x.shape().begin() + static_cast<ptrdiff_t>(axis));
  const int of_batch = sharing == Sharing::kSamples ? 1 : 0;
  shape.insert(shape.end(), indices.shape().begin() + of_batch, indices.shape().end());
  shape.insert(shape.end(), x.shape().begin() + static_cast<ptrdiff_t>(axis) + 1, x.shape().end());
  if (shape.size() > kMaxTensorRank)
    fail(ErrorKind::kInput, "take: the result has {} dimensions, expected at most {}", shape.size(),
         kMaxTensorRank);
  return shape;
}

Tensor take_rows(const Tensor& x, const Tensor& indices, size_t axis, Sharing sharing) {
  if (sharing == Sharing::kLines)
    return make(TakeAlongAxis(axis), {x, indices}, {indices.shape(), x.dtype()});
  return make(Take(axis, sharing), {x, indices},
              {taken_shape(x, indices, axis, sharing), x.dtype()});
}

// The updates have the shape and type that scatter_add() gives them.
Tensor add_rows(const Tensor& x, const Tensor& indices, const Tensor& updates, size_t axis,
                Sharing sharing) {
  return make(ScatterAdd(axis, sharing), {x, indices, updates}, {x.shape(), x.dtype()});
}

// Brings x and indices to shapes that differ along the axis only.
std::pair<Tensor, Tensor> aligned(std::string_view function, const Tensor& x, const Tensor& indices,
                                  size_t axis) {
  if (x.rank() != indices.rank())
    fail(ErrorKind::kInput, "{}: shapes {} and {} have different numbers of dimensions", function,
         text(x.shape()), text(indices.shape()));
  Shape a = x.shape(), b = indices.shape();
  a[axis] = b[axis] = 1;
  Shape of_x = broadcast(function, a, b), of_indices = of_x;
  of_x[axis] = x.shape()[axis];
  of_indices[axis] = indices.shape()[axis];
  return {broadcast_to(x, of_x), broadcast_to(indices, of_indices)};
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, int axis) {
  require("take", x);
  require_indices("take", indices);
  const auto at = static_cast<size_t>(axis_of("take", axis, x.rank()));
  return take_rows(x, indices, at, Sharing::kAll);
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  require("scatter_add", x);
  require("scatter_add", updates);
  require_numbers("scatter_add", x);
  require_indices("scatter_add", indices);
  const auto at = static_cast<size_t>(axis_of("scatter_add", axis, x.rank()));
  const Tensor all = broadcast_to(astype(updates, x.dtype()), taken_shape(x, indices, at));
  return add_rows(x, indices, all, at, Sharing::kAll);
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis) {
  require("take_along_axis", x);
  require_indices("take_along_axis", indices);
  const auto at = static_cast<size_t>(axis_of("take_along_axis", axis, x.rank()));
  const auto [from, places] = aligned("take_along_axis", x, indices, at);
  return take_rows(from, places, at, Sharing::kLines);
}

Tensor scatter_add_along_axis(const Tensor& x, const Tensor& indices, const Tensor& updates,
                              int axis) {
  require("scatter_add_along_axis", x);
  require("scatter_add_along_axis", updates);
  require_numbers("scatter_add_along_axis", x);
  require_indices("scatter_add_along_axis", indices);
  const auto at = static_cast<size_t>(axis_of("scatter_add_along_axis", axis, x.rank()));
  const auto [to, places] = aligned("scatter_add_along_axis", x, indices, at);
  const Tensor all = broadcast_to(astype(updates, x.dtype()), places.shape());
  return add_rows(to, places, all, at, Sharing::kLines);
}

Tensor one_hot(const Tensor& indices, int64_t classes, Dtype type) {
  require_indices("one_hot", indices);
  if (classes < 0) fail(ErrorKind::kInput, "one_hot: {} classes, expected 0 or more", classes);
  const Tensor numbers =
      to_device(arange(0, static_cast<double>(classes), 1, Dtype::kI64), indices.device());
  return astype(equal(expand_dims(indices, -1), numbers), type);
}

}  // namespace veery::tensor

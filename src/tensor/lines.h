// lines.h: operands as [outer][along][inner] around one axis.
#pragma once
#include <algorithm>

#include "kernels/tensor/tensor_device.h"
#include "tensor/devices.h"
#include "tensor/element_group.h"
#include "tensor/node.h"
#include "tensor/runtime.h"

namespace veery::tensor {

/// The sizes of a shape around an axis.
struct Lines {
  int64_t outer = 1, along = 1, inner = 1;

  Lines(const Shape& shape, size_t axis) {
    for (size_t i = 0; i < shape.size(); ++i)
      (i < axis ? outer : i == axis ? along : inner) *= shape[i];
  }
  int64_t count() const { return outer * inner; }
  /// The first element of line i, whose elements are `inner` apart.
  int64_t first(int64_t line) const { return line / inner * along * inner + line % inner; }
};

/// The elements of an operand as `type`, contiguous; copied if they are not.
inline Data contiguous(const Operand& x, Dtype type) {
  if (x.spec->dtype == type && x.data->strides == contiguous_strides(x.spec->shape)) return *x.data;
  return evaluate_one(ElementOp::kCast, {&x, 1}, {x.spec->shape, type});
}

/// Contiguous operands around an axis for the kernels of a device. `from`: the size of the axis.
inline IndexedLines indexed_lines(const Data& x, const Spec& spec, size_t axis, const Data& out) {
  const Lines lines(spec.shape, axis);
  const auto bytes = static_cast<int64_t>(byte_size(spec.dtype));
  return {.type = element_type(spec.dtype),
          .outer = lines.outer,
          .from = lines.along,
          .to = lines.along,
          .inner = lines.inner,
          .x = x.buffer->data() + x.offset * bytes,
          .out = out.buffer->data()};
}

template <typename T>
T* elements(const Data& data) {
  return reinterpret_cast<T*>(data.buffer->data()) + data.offset;
}

/// Calls body(line) for all lines, on all workers. The lines of a worker are neighbours.
template <typename Body>
void each_line(int64_t lines, int64_t elements_each, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(elements_each, 1));
  Runtime::get().pool().parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) body(line);
  });
}

/// Calls fn(T{}) with the type of elements in memory of a number type; f16 and bf16 as f32, for
/// operands that contiguous() has brought to computed_dtype().
constexpr Dtype computed_dtype(Dtype type) {
  return static_cast<Dtype>(computed_type(element_type(type)));
}
template <typename Fn>
auto with_number(Dtype type, const Fn& fn) {
  switch (computed_dtype(type)) {
    case Dtype::kBool:
    case Dtype::kU8: return fn(uint8_t{});
    case Dtype::kI8: return fn(int8_t{});
    case Dtype::kI32: return fn(int32_t{});
    case Dtype::kU32: return fn(uint32_t{});
    case Dtype::kI64: return fn(int64_t{});
    case Dtype::kF64: return fn(double{});
    default: return fn(float{});
  }
}

/// Calls fn(first, line, lines) for each line of an operand along an axis, on all workers. `first`
/// points to its first element, of computed_dtype(); the next one is lines.inner further.
template <typename Fn>
void each_line_of(const Operand& x, size_t axis, const Fn& fn) {
  const Lines lines(x.spec->shape, axis);
  const Dtype type = computed_dtype(x.spec->dtype);
  const Data data = contiguous(x, type);
  with_number(type, [&](auto sample) {
    const auto* first = elements<decltype(sample)>(data);
    each_line(lines.count(), lines.along,
              [&](int64_t line) { fn(first + lines.first(line), line, lines); });
  });
}

}  // namespace veery::tensor

// Functions that make tensors of numbers.
#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/devices.h"
#include "tensor/element_group.h"
#include "tensor/elementwise.h"

namespace veery::tensor {
namespace {

/// first + i * step of element i of one dimension.
class Sequence : public Operation {
 public:
  Sequence(double first, double step) : first_(first), step_(step) {}
  std::string_view name() const override { return "arange"; }
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand>, std::span<const Spec> out) const override {
    const Spec& spec = out.front();
    const int64_t count = spec.shape.front();
    const bool whole = !is_float(spec.dtype);
    const Spec wide{spec.shape, whole ? Dtype::kI64 : Dtype::kF64};
    Data data = new_data(wide);
    // Numbers are made as f64 or i64 and then cast, so that each is rounded once.
    if (TensorDevice* kernels = current_kernels()) {
      make_on(*kernels, data, count, whole);
      if (wide.dtype == spec.dtype) return {std::move(data)};
      return {evaluate_one(ElementOp::kCast, std::array{Operand{&wide, &data}}, spec)};
    }
    for (int64_t i = 0; i < count; ++i) {
      if (whole)
        reinterpret_cast<int64_t*>(data.buffer->data())[i] =
            static_cast<int64_t>(first_) + i * static_cast<int64_t>(step_);
      else
        reinterpret_cast<double*>(data.buffer->data())[i] = first_ + static_cast<double>(i) * step_;
    }
    if (wide.dtype == spec.dtype) return {std::move(data)};
    const Operand operand{&wide, &data};
    return Elementwise(ElementOp::kCast).evaluate({&operand, 1}, out);
  }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>,
                          const std::vector<bool>&) const override {
    return {};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }

 private:
  void make_on(TensorDevice& kernels, const Data& data, int64_t count, bool whole) const {
    std::byte* to = data.buffer->data();
    if (whole)
      kernels.sequence(static_cast<int64_t>(first_), static_cast<int64_t>(step_),
                       reinterpret_cast<int64_t*>(to), count);
    else
      kernels.sequence(first_, step_, reinterpret_cast<double*>(to), count);
  }
  double first_, step_;
};

// Row index - column index + k of the last two axes.
Tensor diagonals(int64_t rows, int64_t columns, const Device& device) {
  const auto numbers = [&](int64_t count) {
    return to_device(arange(0, static_cast<double>(count), 1, Dtype::kI64), device);
  };
  return expand_dims(numbers(rows), 1) - expand_dims(numbers(columns), 0);
}

Tensor below(std::string_view function, const Tensor& x) {
  require(function, x);
  if (x.rank() < 2)
    fail(ErrorKind::kInput, "{}: a tensor with {} dimensions, expected 2 or more", function,
         x.rank());
  return diagonals(x.dim(-2), x.dim(-1), x.device());
}

// -k without overflow. No matrix has as many diagonals.
int64_t opposite(int64_t k) { return -std::max(k, -INT64_MAX); }

}  // namespace

Tensor full(const Shape& shape, Scalar value, Dtype type) {
  return broadcast_to(constant("full", value, type), shape);
}
Tensor zeros(const Shape& shape, Dtype type) { return full(shape, 0, type); }
Tensor ones(const Shape& shape, Dtype type) { return full(shape, 1, type); }
Tensor zeros_like(const Tensor& x) {
  require("zeros_like", x);
  return to_device(zeros(x.shape(), x.dtype()), x.device());
}
Tensor ones_like(const Tensor& x) {
  require("ones_like", x);
  return to_device(ones(x.shape(), x.dtype()), x.device());
}

Tensor arange(double start, double stop, double step, Dtype type) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step))
    fail(ErrorKind::kInput, "arange: from {} to {} by {}", start, stop, step);
  if (!is_float(type) && (start != std::floor(start) || step != std::floor(step)))
    fail(ErrorKind::kInput, "arange: {} and {} are no numbers of type {}", start, step, name(type));
  const double count = std::max(std::ceil((stop - start) / step), 0.0);
  if (count > 0x1p40) fail(ErrorKind::kLimit, "arange: {} elements", count);
  if (!is_float(type) && count > 0) {
    for (const double number : {start, start + (count - 1) * step}) {
      if (!(std::fabs(number) < 0x1p63))
        fail(ErrorKind::kInput, "arange: {} is no number of type {}", number, name(type));
      if (is_integer(type)) require_fit("arange", static_cast<int64_t>(number), type);
    }
  }
  // The step from an only element may be too large for i64.
  return make(Sequence(start, count > 1 ? step : 0), {}, {{static_cast<int64_t>(count)}, type});
}

Tensor linspace(double start, double stop, int64_t count, Dtype type) {
  if (count < 0) fail(ErrorKind::kInput, "linspace: {} elements, expected 0 or more", count);
  if (!is_float(type)) fail(ErrorKind::kInput, "linspace: type {}, expected floats", name(type));
  if (count < 2) return full({count}, start, type);
  const Tensor numbers = make(Sequence(start, (stop - start) / static_cast<double>(count - 1)), {},
                              {{count - 1}, Dtype::kF64});
  // The last number is exact.
  return astype(concatenate({numbers, full({1}, stop, Dtype::kF64)}), type);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, int64_t k, Dtype type) {
  if (rows < 0 || columns.value_or(rows) < 0)
    fail(ErrorKind::kInput, "eye: {} rows and {} columns", rows, columns.value_or(rows));
  return astype(equal(diagonals(rows, columns.value_or(rows), get_default_device()), opposite(k)),
                type);
}
Tensor tril(const Tensor& x, int64_t k) {
  return where(greater_equal(below("tril", x), opposite(k)), x, zeros_like(x));
}
Tensor triu(const Tensor& x, int64_t k) {
  return where(less_equal(below("triu", x), opposite(k)), x, zeros_like(x));
}

}  // namespace veery::tensor

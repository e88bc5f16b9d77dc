#include "kernels/cpu/tensor/matmul.h"

#include <algorithm>

#include "tensor/devices.h"
#include "tensor/element_group.h"
#include "tensor/elementwise.h"
#include "tensor/runtime.h"

namespace veery::tensor {
namespace {

// a [.., rows, inner] b [.., inner, columns], with the same dimensions before.
class Matmul : public Operation {
 public:
  std::string_view name() const override { return "matmul"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override { return has_same(*this, other); }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override {
    const Tensor& t = cotangents.front();
    std::vector<Tensor> result(2);
    if (wanted[0]) result[0] = matmul(t, swapaxes(in[1], -1, -2));
    if (wanted[1]) result[1] = matmul(swapaxes(in[0], -1, -2), t);
    return result;
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    Tensor sum;
    if (tangents[0]) sum = matmul(tangents[0], in[1]);
    if (tangents[1]) {
      const Tensor other = matmul(in[0], tangents[1]);
      sum = sum ? sum + other : other;
    }
    return {sum};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    return {matmul(in[0], in[1])};  // the batch is one more dimension before the matrices
  }
};

Data multiply_on(TensorDevice& kernels, std::span<const Operand> in, const Spec& out) {
  const size_t rank = out.shape.size();
  Data data = new_data(out);
  kernels.matmul({.type = element_type(out.dtype),
                  .rows = out.shape[rank - 2],
                  .columns = out.shape[rank - 1],
                  .inner = in[0].spec->shape[rank - 1],
                  .batch = std::span(out.shape).first(rank - 2),
                  .a = in[0].first(),
                  .b = in[1].first(),
                  .a_strides = in[0].data->strides,
                  .b_strides = in[1].data->strides,
                  .out = data.buffer->data()});
  return data;
}

std::vector<Data> Matmul::evaluate(std::span<const Operand> in, std::span<const Spec> out) const {
  const Spec& spec = out.front();
  const size_t rank = spec.shape.size();
  // f16 and bf16 are multiplied in f32, and the sums rounded.
  Spec wide = spec;
  if (spec.dtype != Dtype::kF64) wide.dtype = Dtype::kF32;
  if (TensorDevice* kernels = current_kernels()) return {multiply_on(*kernels, in, spec)};
  Data data = new_data(wide);
  MatmulProblem problem{.type = element_type(spec.dtype),
                        .rows = spec.shape[rank - 2],
                        .columns = spec.shape[rank - 1],
                        .inner = in[0].spec->shape[rank - 1]};
  const int64_t each = problem.rows * problem.columns;
  const auto matrix = [&](const Operand& x, int64_t index) {
    int64_t offset = 0;
    for (size_t i = rank - 2; i-- > 0;) {
      offset += index % spec.shape[i] * x.data->strides[i];
      index /= spec.shape[i];
    }
    return StridedMatrix{x.first() + offset * static_cast<int64_t>(byte_size(x.spec->dtype)),
                         x.data->strides[rank - 2], x.data->strides[rank - 1]};
  };
  Runtime& runtime = Runtime::get();
  for (int64_t i = 0; each > 0 && i < element_count(spec.shape) / each; ++i) {
    problem.a = matrix(in[0], i);
    problem.b = matrix(in[1], i);
    problem.out = data.buffer->data() + i * each * static_cast<int64_t>(byte_size(wide.dtype));
    veery::matmul(problem, runtime.target(), runtime.pool());
  }
  if (wide.dtype == spec.dtype) return {std::move(data)};
  const Operand product{&wide, &data};
  return {evaluate_one(ElementOp::kCast, {&product, 1}, spec)};
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  require("matmul", a);
  require("matmul", b);
  if (a.rank() == 0 || b.rank() == 0)
    fail(ErrorKind::kInput, "matmul: shapes {} and {}, expected 1 dimension or more",
         text(a.shape()), text(b.shape()));
  const Dtype type = promote(a.dtype(), b.dtype());
  if (!is_float(type))
    fail(ErrorKind::kUnsupported, "matmul: operands of {}, expected floats", name(type));
  Tensor x = astype(a.rank() == 1 ? expand_dims(a, 0) : a, type);
  Tensor y = astype(b.rank() == 1 ? expand_dims(b, 1) : b, type);
  if (x.dim(-1) != y.dim(-2))
    fail(ErrorKind::kInput, "matmul: shapes {} and {}: {} columns and {} rows", text(a.shape()),
         text(b.shape()), x.dim(-1), y.dim(-2));
  if (x.rank() > 2 && y.rank() == 2) {  // the rows of all batches are one matrix
    Shape shape = x.shape();
    shape.back() = y.dim(1);
    const int64_t rows = element_count({x.shape().begin(), x.shape().end() - 1});
    const Tensor all = reshape(matmul(reshape(x, {rows, x.dim(-1)}), y), shape);
    return b.rank() == 1 ? squeeze(all, {-1}) : all;
  }
  const Shape batch = broadcast("matmul", {x.shape().begin(), x.shape().end() - 2},
                                {y.shape().begin(), y.shape().end() - 2});
  const auto with_batch = [&](const Tensor& m) {
    Shape shape = batch;
    shape.insert(shape.end(), {m.dim(-2), m.dim(-1)});
    return broadcast_to(m, shape);
  };
  Shape shape = batch;
  shape.insert(shape.end(), {x.dim(-2), y.dim(-1)});
  Tensor result = make(Matmul(), {with_batch(x), with_batch(y)}, {std::move(shape), type});
  if (b.rank() == 1) result = squeeze(result, {-1});
  return a.rank() == 1 ? squeeze(result, {b.rank() == 1 ? -1 : -2}) : result;
}

}  // namespace veery::tensor

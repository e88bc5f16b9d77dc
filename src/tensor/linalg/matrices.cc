#include "tensor/linalg/matrices.h"

#include "tensor/transforms/trace.h"

namespace veery::tensor::linalg {

// The vjp is linear in the cotangents.
std::vector<Tensor> MatrixOperation::jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                                         std::span<const Tensor> tangents) const {
  const Function backward = [&](std::span<const Tensor> cotangents) {
    return with_zeros(vjp(in, out, cotangents, std::vector<bool>(in.size(), true)), in);
  };
  return tensor::vjp(backward, with_zeros(std::vector<Tensor>(out.size()), out),
                     with_zeros({tangents.begin(), tangents.end()}, in))
      .second;
}

std::vector<Tensor> MatrixOperation::batch(const Batch& in, std::span<const Spec> out) const {
  return make_batched(clone(), in, out);
}

int64_t matrix_count(const Shape& shape, size_t dimensions) {
  return element_count({shape.begin(), shape.end() - static_cast<ptrdiff_t>(dimensions)});
}

Data new_f64(const Spec& out) { return new_data({out.shape, Dtype::kF64}); }

Data rounded(Data f64, const Spec& out) {
  if (out.dtype == Dtype::kF64) return f64;
  const Spec wide{out.shape, Dtype::kF64};
  const Operand operand{&wide, &f64};
  return evaluate_one(ElementOp::kCast, {&operand, 1}, out);
}

void require_matrix(std::string_view function, const Tensor& x) {
  require(function, x);
  if (x.dtype() != Dtype::kF32 && x.dtype() != Dtype::kF64)
    fail(ErrorKind::kInput, "{}: a tensor of {}, expected f32 or f64", function, name(x.dtype()));
  if (x.rank() < 2)
    fail(ErrorKind::kInput, "{}: shape {}, expected 2 dimensions or more", function,
         text(x.shape()));
}

void require_square(std::string_view function, const Tensor& x) {
  require_matrix(function, x);
  if (x.dim(-1) != x.dim(-2))
    fail(ErrorKind::kInput, "{}: shape {}, expected square matrices", function, text(x.shape()));
}

Shape with_matrix(const Shape& shape, std::initializer_list<int64_t> last) {
  Shape result(shape.begin(), shape.end() - 2);
  result.insert(result.end(), last);
  return result;
}

}  // namespace veery::tensor::linalg

// matrices.h: operations on batches of matrices, on the host.
#pragma once
#include <functional>
#include <vector>

#include "tensor/lines.h"
#include "tensor/node.h"

namespace veery::tensor::linalg {

/// An operation on each matrix of its inputs, which have the same dimensions before. Forward mode
/// uses the transpose of the vjp.
class MatrixOperation : public Operation {
 public:
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const final;
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const final;

 private:
  /// The same operation, for a node of a batch.
  virtual std::shared_ptr<const Operation> clone() const = 0;
};

/// The number of matrices of a tensor whose last `dimensions` are those of one.
int64_t matrix_count(const Shape& shape, size_t dimensions = 2);

/// Calls body(i) for each matrix, on all workers. It returns whether matrix i is fine; throws
/// kInput with `problem` for the first one that is not.
template <typename Body>
void each_matrix(std::string_view function, int64_t count, int64_t elements,
                 std::string_view problem, const Body& body) {
  std::vector<uint8_t> is_fine(static_cast<size_t>(count));
  each_line(count, elements, [&](int64_t i) { is_fine[static_cast<size_t>(i)] = body(i) ? 1 : 0; });
  for (size_t i = 0; i < is_fine.size(); ++i)
    if (is_fine[i] == 0)
      fail(ErrorKind::kInput, "{}: {}{}", function, problem,
           count > 1 ? fmt::format(" (matrix {} of {})", i, count) : "");
}

/// Memory for an output in f64, in which matrices are computed, and the output made of it.
Data new_f64(const Spec& out);
Data rounded(Data f64, const Spec& out);

/// Throws kInput unless x is f32 or f64 and has two dimensions or more.
void require_matrix(std::string_view function, const Tensor& x);
void require_square(std::string_view function, const Tensor& x);

inline Tensor transposed(const Tensor& x) { return swapaxes(x, -1, -2); }
/// The shape before the last two dimensions, followed by `last`.
Shape with_matrix(const Shape& shape, std::initializer_list<int64_t> last);

}  // namespace veery::tensor::linalg

// quantized.h: the data of quantised weights, and products with them.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <veery/tensor_io.hpp>

#include "dtype/dtype.h"
#include "tensor/node.h"

namespace veery::tensor {

/// Rows in blocks, which `owner` keeps in memory. Shared by the handles of a QuantizedTensor.
struct QuantizedState {
  std::string name;  ///< of the tensor in its file, for messages
  DType type = DType::kF32;
  Shape shape;  ///< [.., rows, columns], 1 dimension or more
  std::shared_ptr<const void> owner;
  const std::byte* blocks = nullptr;
  /// The panels of kernels (kernels/cpu/panels/panels.h), empty before the first product. Guarded
  /// by Runtime::mutex().
  std::shared_ptr<Buffer> panels = nullptr;

  int64_t columns() const { return shape.back(); }
  int64_t rows() const { return element_count({shape.begin(), shape.end() - 1}); }
  size_t row_bytes() const { return veery::byte_size(type, columns()); }
  const std::byte* row(int64_t index) const {
    return blocks + index * static_cast<int64_t>(row_bytes());
  }
};

/// Returns the handle of blocks. Throws kInput, naming the function, if the shape is not one of
/// whole blocks; kUnsupported for integers.
QuantizedTensor make_quantized(std::string_view function, QuantizedState state);

/// Throws kInput, naming the function, if q is no tensor.
void require(std::string_view function, const QuantizedTensor& q);

/// Decodes rows [first, last) to f32, on all workers. Call with Runtime::mutex() held.
void decode_rows(const QuantizedState& q, int64_t first, int64_t last, float* out);

/// The number of rows that have up to 4 MiB as f32. Rows are decoded in such pieces, where not all
/// are needed at once.
int64_t rows_of_piece(const QuantizedState& q);

}  // namespace veery::tensor

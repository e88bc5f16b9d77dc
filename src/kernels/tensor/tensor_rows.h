// tensor_rows.h: a tensor as rows along its last dimension.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/tensor/element_program.h"

namespace veery {

struct TensorRows {
  int rank = 1;  ///< at least 1
  std::array<int64_t, kMaxTensorRank> shape{};

  int64_t columns() const { return shape[static_cast<size_t>(rank - 1)]; }
  int64_t count() const {
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank; ++i) rows *= shape[static_cast<size_t>(i)];
    return rows;
  }
  /// The offset of the first element of a row, in elements.
  int64_t offset(const StridedElements& elements, int64_t row) const {
    int64_t offset = 0;
    for (int i = rank - 2; i >= 0; --i) {
      const auto d = static_cast<size_t>(i);
      offset += row % shape[d] * elements.strides[d];
      row /= shape[d];
    }
    return offset;
  }
  /// The distance of the elements of a row.
  int64_t stride(const StridedElements& elements) const {
    return elements.strides[static_cast<size_t>(rank - 1)];
  }
};

}  // namespace veery

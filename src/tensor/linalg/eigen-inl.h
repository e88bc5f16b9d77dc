// eigen-inl.h: Eigen's matrices on the memory of tensors.
#pragma once
#define EIGEN_MPL2_ONLY
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "tensor/lines.h"

namespace veery::tensor::linalg {

using Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Matrix `index` of contiguous ones in f64.
inline Eigen::Map<RowMajor> matrix(const Data& data, int64_t index, int64_t rows, int64_t columns) {
  return {elements<double>(data) + index * rows * columns, rows, columns};
}

}  // namespace veery::tensor::linalg

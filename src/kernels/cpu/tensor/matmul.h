// matmul.h: products of matrices of floats on the CPU.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tensor/element_type.h"

namespace veery {

/// A matrix in memory, with strides in elements.
struct StridedMatrix {
  const std::byte* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

/// out [rows, columns] = a [rows, inner] b [inner, columns], contiguous. Elements of `a` and `b`
/// have `type`; `out` has f64 for f64 and f32 otherwise. Each element is one chain of fused
/// multiply-adds from 0 on, for any number of workers, in the order of the inner axis. The order of
/// bf16 is that of VDPBF16PS: the odd one of each pair of products first, subnormal numbers flushed
/// to 0.
struct MatmulProblem {
  ElementType type = ElementType::kF32;
  int64_t rows = 0, columns = 0, inner = 0;
  StridedMatrix a, b;
  std::byte* out = nullptr;
};
void matmul(const MatmulProblem& problem, Target target, ThreadPool& pool);

}  // namespace veery

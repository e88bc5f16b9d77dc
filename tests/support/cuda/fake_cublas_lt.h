// fake_cublas_lt.h: a cublasLt beside fake_cuda.h, which checks what matrices it is told of and
// multiplies them on the host.
#pragma once
#include <string>

#include "kernels/cuda/cublas_lt.h"

namespace veery::cuda {

struct FakeLtState {
  int objects = 0;       ///< handles, products, layouts and wishes that exist
  int recorded = 0;      ///< products put into a stream that was recorded
  int begun = 0;         ///< products begun at once
  int searches = 0;      ///< for an algorithm
  int fail_search = -1;  ///< this search finds none
  std::string fault;     ///< the first thing that was wrong with a product
};
FakeLtState& fake_lt_state();
/// A fresh one: the state is reset.
const CublasLt& fake_cublas_lt();

}  // namespace veery::cuda

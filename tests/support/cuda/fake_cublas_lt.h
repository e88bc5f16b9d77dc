// fake_cublas_lt.h: a fake cublasLt for fake_cuda.h, which validates the matrices and multiplies
// them on the host.
#pragma once
#include <string>

#include "kernels/cuda/cublas_lt.h"

namespace veery::cuda {

struct FakeLtState {
  int objects = 0;       ///< existing handles, products, layouts and preferences
  int recorded = 0;      ///< products recorded in a captured stream
  int begun = 0;         ///< products started immediately
  int searches = 0;      ///< heuristic searches for an algorithm
  int fail_search = -1;  ///< index of the search that returns no algorithm
  std::string fault;     ///< the first invalid use
};
FakeLtState& fake_lt_state();
/// Returns the fake library and resets its state.
const CublasLt& fake_cublas_lt();

}  // namespace veery::cuda

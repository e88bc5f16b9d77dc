// rope_rows.h: the loops of rope(), by instruction set.
#pragma once
#include "kernels/common/tensor_rope.h"
#include "kernels/kernels.h"

namespace veery {

/// Memory of a worker.
struct RopeScratch {
  double *positions, *cos, *sin;  ///< [pairs]
  float* row;                     ///< [head_dim]
};
/// Rotates the tokens [begin, end) of all batches together.
using RopeRows = void (*)(const RopeProblem& problem, const RopeTable& table, int64_t begin,
                          int64_t end, const RopeScratch& scratch);
RopeRows find_rope_rows(Target target);

}  // namespace veery

// emit.h: from a fused graph to the dispatch table.
#pragma once
#include <vector>

#include "plan/plan.h"

namespace veery {

struct Emitted {
  std::vector<Dispatch> table;
  std::vector<Label> labels;
  std::vector<Op> ops;  ///< of each row
  std::vector<Operand> roots;
  size_t arena_bytes = 0;
  size_t scratch_bytes = 0;  ///< of each worker
};

/// Chooses kernels and places memory for what `roots` need. `arena` becomes the memory that the
/// operands point into.
Emitted emit(const Graph& graph, const std::vector<Value>& roots, const Binding& binding,
             const PlanOptions& options, Memory& arena);

}  // namespace veery

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
  std::vector<RunInput> inputs;  ///< of a device's table
  Memory constants;              ///< written already
  std::byte* arena = nullptr;    ///< where all other values lie, in the workspace
  size_t arena_bytes = 0;
  HostMemory memory;  ///< of a table of the host
};

/// Chooses kernels and places what `roots` need in `workspace`.
Emitted emit(const Graph& graph, const std::vector<Value>& roots, const Binding& binding,
             const PlanOptions& options, Workspace& workspace);

}  // namespace veery

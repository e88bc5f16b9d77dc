// emit.h: makes the dispatch table of a fused graph.
#pragma once
#include <vector>

#include "plan/plan.h"

namespace veery {

struct Emitted {
  std::vector<Dispatch> table;
  std::vector<Label> labels;
  std::vector<Op> ops;  ///< of each row: the op whose kernel it is
  std::vector<Operand> roots;
  std::vector<RunInput> inputs;  ///< inputs of a table that runs on a device
  Memory constants;              ///< the elements of op::kData
  std::byte* arena = nullptr;    ///< memory of all other values but the roots, in the workspace
  size_t arena_bytes = 0;
  HostMemory memory;  ///< of a table that runs on the host
};

/// Chooses kernels for the nodes that `roots` need and places their values in `workspace`. Throws
/// kUnsupported as Plan does.
Emitted emit(const Graph& graph, const std::vector<Value>& roots, const Binding& binding,
             const ReceivedInputs& received, const PlanOptions& options, Workspace& workspace);

}  // namespace veery

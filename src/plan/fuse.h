// fuse.h: the fusion rules: graph -> graph, after differentiation.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace veery {

/// Applies all rules. `roots` are rewritten to the ids of the result; they are never fused away.
Graph fuse(const Graph& graph, std::vector<Value>& roots);

}  // namespace veery

// infer.h: the shape rules of the op table.
#pragma once
#include "graph/graph.h"

namespace veery {

/// The shape of op(in). Throws kInput naming op, the shapes found and what was expected.
Shape infer_shape(const Graph& graph, Op op, const Inputs& in, const Attr& attr);

}  // namespace veery
